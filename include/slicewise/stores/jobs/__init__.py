"""Training sets that clients request over HTTP: jobs in a folder that the API and its worker share.

Doors: job, folder.
"""
