"""Questions answered from events, by the rules of the online answer."""
