package io.slicewise.realtime;

import io.slicewise.wire.Commands;
import java.util.ArrayList;
import java.util.List;

/** The next events of one entity, in offset order: one call of a script. */
final class PendingCall {
  /** Events of one call: bounds the time of a script. */
  private static final int MOST = 512;

  final PendingWrite.Entity entity;
  final List<PendingWrite> writes = new ArrayList<>();

  PendingCall(PendingWrite.Entity entity) {
    this.entity = entity;
  }

  /** What is too much goes with the next turn, once this call was answered. */
  void add(PendingWrite write) {
    if (writes.size() < MOST) {
      writes.add(write);
    }
  }

  void to(Commands commands, RealtimeSpec spec) {
    if (entity.unit.list == null) {
      pending(commands, spec);
    } else {
      list(commands, spec);
    }
  }

  private void pending(Commands commands, RealtimeSpec spec) {
    RealtimeUnit unit = entity.unit;
    commands.begin(10 + 3 * writes.size()).word("EVALSHA").word(spec.pending.sha()).word("1");
    commands.word(unit.hotKey(entity.tag));
    commands.word(unit.appliedField(entity.partition)).word(unit.skip(entity.partition))
        .word(unit.topicPartition(entity.partition));
    commands.word(spec.bound).word(spec.fieldEvents).word(spec.fieldBytes);
    for (PendingWrite write : writes) {
      commands.word(write.offset).word(write.value).word(unit.expiry(write.timeUs));
    }
  }

  private void list(Commands commands, RealtimeSpec spec) {
    RealtimeUnit unit = entity.unit;
    RealtimeUnit.Keeps keeps = unit.list;
    long newest = writes.stream().mapToLong(write -> write.timeUs).max().orElseThrow();
    commands.begin(11 + 3 * writes.size());
    commands.word("EVALSHA").word(spec.list.sha()).word("2");
    commands.word(unit.listKey(entity.tag)).word(unit.membersKey(entity.tag));
    commands.word(unit.appliedField(entity.partition));
    commands.word(keeps.rangeUs()).word(keeps.rows()).word(keeps.lateUs()).word(keeps.most());
    commands.word(unit.listExpiry(newest));
    for (PendingWrite write : writes) {
      commands.word(write.offset).word(RealtimeUnit.score(write.timeUs)).word(write.value);
    }
  }

  /** Where it went, for messages. */
  String where() {
    return "unit " + entity.unit.name + ", partition " + entity.partition + ", offset "
        + writes.get(0).offset;
  }
}
