"""The whole platform measured on real servers, and the usual recipe on the same servers in the same
run."""
