"""The benchmark that anyone can run: `make bench`. docs/performance.md says what it measures, and how to read it."""
