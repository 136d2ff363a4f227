"""The core: what a grant means and what it decides.

Pure: no I/O, no clock, no network library. Values in, values out. A function here either
returns a decision or raises `GrantInvalid` while a grant is being loaded; nothing else.
"""
