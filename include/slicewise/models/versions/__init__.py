"""Versions of models that slicewise trains: folders that are whole, and the one that is live.

Doors: ModelFolder, VersionManifest.
"""
