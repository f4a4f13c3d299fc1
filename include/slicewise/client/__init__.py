"""The HTTP client and what an answer says; light: it needs httpx, and no other room's libraries.

The types of answers are in `answers`.

Doors: HttpClient, AsyncHttpClient, Retry.
"""
