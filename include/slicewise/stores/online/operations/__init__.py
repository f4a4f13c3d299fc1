"""The operations of the store, one file each, as generators of steps."""
