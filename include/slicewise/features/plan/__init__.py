"""Running plan: a deployment of storage units, made of definitions, explained and compared.

Doors: plan, Deployment, StorageUnit.
"""
