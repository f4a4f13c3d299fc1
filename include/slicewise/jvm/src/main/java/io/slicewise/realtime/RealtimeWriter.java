package io.slicewise.realtime;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/**
 * Writes each row of a source into the store as it comes, for each unit that keeps it, as
 * `docs/adr/0050` says. It knows keys, fields, expiry and the applied offset's script, and nothing
 * of what is made of the rows.
 *
 * <p>A row has the columns partition, offset, kafka_time and event_time, and those that the JSON
 * names.
 */
public final class RealtimeWriter extends ForeachWriter<Row> {
  private static final long serialVersionUID = 1L;

  private final String json;
  private transient RealtimeSpec spec;
  private transient RealtimeSender sender;
  private transient List<Placed> placed;
  private transient RealtimeStatus status;
  private transient int partitionAt;
  private transient int offsetAt;
  private transient int kafkaTimeAt;
  private transient int eventTimeAt;

  /** Where a unit's columns stand in the rows. */
  private record Placed(RealtimeUnit unit, int keep, int[] entity, int[] inputs) {}

  private RealtimeWriter(String json) {
    this.json = json;
  }

  /** The writer that this JSON describes (`spark/realtime/spec.py`). */
  public static RealtimeWriter of(String json) {
    RealtimeSpec.of(json); // what it cannot read is refused here
    return new RealtimeWriter(json);
  }

  @Override
  public boolean open(long partitionId, long epochId) {
    spec = RealtimeSpec.of(json);
    placed = null;
    status = null;
    sender = new RealtimeSender(spec);
    return true;
  }

  @Override
  public void process(Row row) {
    if (placed == null) {
      locate(row);
    }
    int partition = row.getInt(partitionAt);
    long offset = row.getLong(offsetAt);
    if (status == null || status.partition != partition) {
      status = sender.partition(partition);
    }
    if (status.acknowledgedBefore(offset)) {
      status.seen = offset;
      return;
    }
    for (Placed placedUnit : placed) {
      if (!row.isNullAt(placedUnit.keep) && row.getByte(placedUnit.keep) == 0
          && placedUnit.unit.starts(partition, offset)) {
        sender.put(write(placedUnit, row, partition, offset));
      }
    }
    status.rows++;
    status.seen = offset;
  }

  private PendingWrite write(Placed at, Row row, int partition, long offset) {
    long timeUs = row.getLong(eventTimeAt);
    byte[] tag = at.unit.tag(values(row, at.entity), partition);
    byte[] value = at.unit.member(timeUs, partition, offset, values(row, at.inputs));
    return new PendingWrite(
        new PendingWrite.Entity(at.unit, partition, tag), timeUs, offset, row.getLong(kafkaTimeAt),
        value);
  }

  private static Object[] values(Row row, int[] columns) {
    Object[] values = new Object[columns.length];
    for (int i = 0; i < columns.length; i++) {
      values[i] = row.get(columns[i]);
    }
    return values;
  }

  private void locate(Row row) {
    partitionAt = row.fieldIndex("partition");
    offsetAt = row.fieldIndex("offset");
    kafkaTimeAt = row.fieldIndex("kafka_time");
    eventTimeAt = row.fieldIndex("event_time");
    List<Placed> placedUnits = new ArrayList<>();
    for (RealtimeUnit unit : spec.units) {
      int[] entity = unit.entity.stream().mapToInt(row::fieldIndex).toArray();
      int[] inputs = unit.inputs.stream().mapToInt(row::fieldIndex).toArray();
      placedUnits.add(new Placed(unit, row.fieldIndex(unit.keep), entity, inputs));
    }
    placed = placedUnits;
  }

  /** Without an error: once all rows were acknowledged. */
  @Override
  public void close(Throwable error) {
    if (sender == null) {
      return;
    }
    if (error == null) {
      sender.finish();
    } else {
      sender.close();
    }
  }
}
