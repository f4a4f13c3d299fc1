package io.slicewise.spark;

import java.util.ArrayList;
import java.util.List;

/** Consecutive events of one entity, and of one hour where that bears on them: one call of a script. */
final class TailRun {
  /** Events of one call: bounds the time of a script. */
  static final int MOST = 512;

  final TailWrite.Entity entity;
  final long hour;
  final List<TailWrite> writes = new ArrayList<>();

  /** Nothing more of the entity goes with it: what comes next must wait for its reply. */
  private boolean closed;

  TailRun(TailWrite first) {
    entity = first.entity;
    hour = hourOf(first);
  }

  private static long hourOf(TailWrite write) {
    return write.entity.unit.list == null ? TailUnit.hour(write.timeUs) : 0;
  }

  void add(TailWrite write) {
    closed |= hourOf(write) != hour || writes.size() == MOST;
    if (!closed) {
      writes.add(write);
    }
  }

  void to(Commands commands, TailSpec spec, Covers covers) {
    if (entity.unit.list == null) {
      tail(commands, spec, covers);
    } else {
      list(commands, spec);
    }
  }

  private void tail(Commands commands, TailSpec spec, Covers covers) {
    TailUnit unit = entity.unit;
    commands.begin(10 + 5 * writes.size());
    commands.word("EVALSHA").word(spec.tail.sha()).word("2");
    commands.word(unit.hotKey(entity.tag)).word(unit.dayKey(entity.tag, hour));
    commands.word(unit.guard(entity.partition)).word(unit.skip(entity.partition));
    commands.word(spec.bound).word(hour).word(covers.newest());
    for (TailWrite each : writes) {
      commands.word(each.offset).word(unit.field(each.timeUs, entity.partition, each.offset)).word(each.value);
      commands.word(unit.expiry(each.timeUs)).word(covers.holding(entity.partition, each.offset));
    }
  }

  private void list(Commands commands, TailSpec spec) {
    TailUnit unit = entity.unit;
    TailUnit.Keeps keeps = unit.list;
    long newest = writes.stream().mapToLong(each -> each.timeUs).max().orElseThrow();
    commands.begin(11 + 3 * writes.size());
    commands.word("EVALSHA").word(spec.list.sha()).word("2");
    commands.word(unit.listKey(entity.tag)).word(unit.membersKey(entity.tag));
    commands.word(unit.guard(entity.partition));
    commands.word(keeps.rangeUs()).word(keeps.rows()).word(keeps.lateUs()).word(keeps.most());
    commands.word(unit.listExpiry(newest));
    for (TailWrite each : writes) {
      commands.word(each.offset).word(TailUnit.score(each.timeUs)).word(each.value);
    }
  }

  /** Where it went, for messages. */
  String where() {
    return "unit " + entity.unit.name + ", partition " + entity.partition + ", offset " + writes.get(0).offset;
  }
}
