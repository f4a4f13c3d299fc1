"""The HTTP client and what an answer says; light: it needs httpx, and no other room's libraries.

Doors: HttpClient, answers, instants.
"""
