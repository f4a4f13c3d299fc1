"""Names of what the platform deploys for itself; needs nothing, since every environment reads
them."""

from __future__ import annotations

PROJECT = "slicewise.own"
SOURCE = "slicewise_probes"
TOPIC = "slicewise.probes"
VIEW = "slicewise_probes"
REF = f"{VIEW}:seen_5m"
"""The feature that counts a probe's event."""
