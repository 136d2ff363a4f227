"""One program in several processes: a supervisor that binds, forks and replaces, and the workers that serve.

The supervisor has one thread, no event loop and no secret's value. It binds every address once and forks the workers,
which share those sockets. Each worker runs the whole program with its part of the limits. Settings change in all
workers or in none: each prepares, and only when all have prepared the same does any of them commit. What a worker that
was killed had in flight, the supervisor reads from memory that they share, and records.
"""
