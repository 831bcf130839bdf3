"""Worker: takes jobs while it has free slots, runs their handlers, tells how they ended."""
