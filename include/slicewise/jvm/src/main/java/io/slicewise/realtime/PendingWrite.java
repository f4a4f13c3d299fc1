package io.slicewise.realtime;

import java.util.Arrays;

/**
 * One row for one unit: what a script is told of it, and whether its reply came. Of the sender's
 * thread once queued.
 */
final class PendingWrite {
  private static final int OVERHEAD_BYTES = 200;

  final Entity entity;
  final long timeUs;
  final long offset;
  final long kafkaTimeUs;

  /** The event as a member. */
  final byte[] value;

  boolean done;

  PendingWrite(Entity entity, long timeUs, long offset, long kafkaTimeUs, byte[] value) {
    this.entity = entity;
    this.timeUs = timeUs;
    this.offset = offset;
    this.kafkaTimeUs = kafkaTimeUs;
    this.value = value;
  }

  /** Bytes that it holds, about. */
  int size() {
    return value.length + OVERHEAD_BYTES;
  }

  /** What is written in offset order: a unit's entity, as far as it comes from one partition. */
  static final class Entity {
    final RealtimeUnit unit;
    final int partition;
    final byte[] tag;
    private final int hash;

    Entity(RealtimeUnit unit, int partition, byte[] tag) {
      this.unit = unit;
      this.partition = partition;
      this.tag = tag;
      this.hash = 31 * (31 * Arrays.hashCode(tag) + partition) + System.identityHashCode(unit);
    }

    @Override
    public int hashCode() {
      return hash;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Entity that
          && hash == that.hash
          && unit == that.unit
          && partition == that.partition
          && Arrays.equals(tag, that.tag);
    }
  }
}
