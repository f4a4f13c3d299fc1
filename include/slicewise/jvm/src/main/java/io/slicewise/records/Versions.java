package io.slicewise.records;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF4;

/**
 * A record is judged by the schema that holds at its offset in the log.
 *
 * <p>Gives what {@link RecordReader} gives, with the kept columns of the newest schema and then
 * those that only earlier ones keep, as they come first: null where the schema of the offset lacks
 * one.
 */
public final class Versions implements UDF4<byte[], Long, Integer, Long, Row> {
  private static final long serialVersionUID = 1L;
  private static final int ABSENT = -1;
  private static final int BEFORE = 2; // event time and reason come before the columns

  private final RecordReader newest;
  private final List<Earlier> earlier;
  private final int columns;
  // from there on a partition's records are the newest's
  private final HashMap<Integer, Long> ends = new HashMap<>();

  /**
   * A schema that judges a partition's records below an offset.
   *
   * @param columns of each column that is given where it stands among this one's, or ABSENT
   */
  private record Earlier(RecordReader reader, HashMap<Integer, Long> until, int[] columns)
      implements java.io.Serializable {}

  private Versions(RecordReader newest, List<Earlier> earlier, int columns) {
    this.newest = newest;
    this.earlier = earlier;
    this.columns = columns;
    earlier.forEach(version ->
        version.until.forEach((partition, end) -> ends.merge(partition, end, Math::max)));
  }

  /**
   * Of a JSON array, oldest first: reader, and until (partition to first offset that it does not
   * judge).
   */
  public static Versions of(String json) {
    JsonNode given = Spec.parsed(json);
    int last = given.size() - 1;
    RecordReader newest = RecordReader.of(given.get(last).get("reader").toString());
    List<RecordReader> before = new ArrayList<>();
    LinkedHashSet<String> wanted = new LinkedHashSet<>(names(newest));
    for (int i = 0; i < last; i++) {
      before.add(RecordReader.of(given.get(i).get("reader").toString()));
      wanted.addAll(names(before.get(i)));
    }
    List<Earlier> earlier = new ArrayList<>();
    for (int i = 0; i < last; i++) {
      List<String> has = names(before.get(i));
      HashMap<Integer, Long> until = new HashMap<>();
      JsonNode ends = given.get(i).get("until");
      ends.properties()
          .forEach(end -> until.put(Integer.valueOf(end.getKey()), end.getValue().asLong()));
      earlier.add(new Earlier(before.get(i), until, wanted.stream().mapToInt(has::indexOf)
          .toArray()));
    }
    return new Versions(newest, earlier, wanted.size());
  }

  private static List<String> names(RecordReader reader) {
    return reader.kept().stream().map(field -> field.name).toList();
  }

  /** The kept columns of the newest schema, in their order. */
  public List<Field> kept() {
    return newest.kept();
  }

  @Override
  public Row call(byte[] value, Long kafkaTimeUs, Integer partition, Long offset) {
    return RowFactory.create(read(value, kafkaTimeUs, partition, offset));
  }

  /** Event time, reason and the columns, as {@link #call} gives them. */
  public Object[] read(byte[] value, long kafkaTimeUs, int partition, long offset) {
    Long end = ends.get(partition);
    if (end != null && offset < end) {
      for (Earlier version : earlier) {
        Long until = version.until.get(partition);
        if (until != null && offset < until) {
          return placed(version.reader.read(value, kafkaTimeUs), version.columns);
        }
      }
    }
    Object[] row = newest.read(value, kafkaTimeUs);
    return row.length == BEFORE + columns ? row : Arrays.copyOf(row, BEFORE + columns);
  }

  private static Object[] placed(Object[] read, int[] columns) {
    Object[] row = new Object[BEFORE + columns.length];
    row[0] = read[0];
    row[1] = read[1];
    for (int i = 0; i < columns.length; i++) {
      row[BEFORE + i] = columns[i] == ABSENT ? null : read[BEFORE + columns[i]];
    }
    return row;
  }
}
