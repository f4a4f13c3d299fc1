"""Logs of one process share a client of Kafka's, for as long as any of them lives."""

from __future__ import annotations

import gc
import os

import pytest

from slicewise.stores.log.topics import KafkaLog

NOBODY, ANOTHER = "127.0.0.1:1", "127.0.0.1:2"


def client(log: KafkaLog) -> int:
    return id(log._admin)


def test_logs_of_the_same_brokers_share_a_client_and_others_do_not() -> None:
    first, second, other = KafkaLog(NOBODY), KafkaLog(NOBODY), KafkaLog(ANOTHER)
    assert client(first) == client(second)
    assert client(other) != client(first)


def test_it_ends_with_the_last_of_them() -> None:
    from slicewise.stores.log import topics

    first = KafkaLog(NOBODY)
    second = KafkaLog(NOBODY)
    del first
    assert (os.getpid(), NOBODY) in topics._CLIENTS
    del second
    gc.collect()
    assert (os.getpid(), NOBODY) not in topics._CLIENTS


def test_a_process_that_was_forked_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = KafkaLog(NOBODY)
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as its child is told another pid
    assert client(KafkaLog(NOBODY)) != client(parent)
