package io.slicewise.records;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** Which schema judges a record, and which columns it gives. */
class VersionsTest {
  private static final long NOW_US = 1_000_000_000_000_000L;

  private static String field(String name, String kind) {
    return "{\"name\":\"" + name + "\",\"kind\":\"" + kind + "\",\"kept\":true,\"allow_nan\":false,"
        + "\"time_form\":\"us\",\"precision\":0,\"scale\":0}";
  }

  private static String version(String until, List<String> required, String... fields) {
    List<String> names = Arrays.stream(fields)
        .map(field -> field.replaceAll(".*?name\":\"(\\w+)\".*", "[\"$1\"]")).toList();
    return "{\"until\":" + until + ",\"reader\":{\"format\":\"json\",\"registry\":null,\"fields\":["
        + String.join(",", fields) + "],\"paths\":[" + String.join(",", names) + "],\"required\":["
        + String.join(",", required)
        + "],\"timestamp\":null,\"max_lateness_us\":0,\"max_ahead_us\":0,\"max_bytes\":1000}}";
  }

  private static final String GONE = field("gone", "string");
  private static final Versions READER = of(GONE.replace("\"kept\":true", "\"kept\":false"));

  private static Versions of(String gone) {
    return Versions.of(
        "["
            + version("{\"0\":5,\"1\":2}", List.of(), field("b", "string"), gone)
            + ","
            + version("{\"0\":9,\"1\":2}", List.of("\"b\""), field("b", "string"))
            + ","
            + version("{}", List.of("\"a\""), field("a", "string"), field("b", "string"))
            + "]");
  }

  private static Object[] read(String json, int partition, long offset) {
    return READER.read(json.getBytes(StandardCharsets.UTF_8), NOW_US, partition, offset);
  }

  private static Object[] good(String a, String b) {
    return new Object[] {
      NOW_US, null, a == null ? null : UTF8String.fromString(a).toString(), b == null ? null : b
    };
  }

  private static void gives(Object[] wanted, Object[] actual) {
    assertArrayEquals(
        Arrays.stream(wanted).map(value -> value == null ? null : value.toString()).toArray(),
        Arrays.stream(actual).map(value -> value == null ? null : value.toString()).toArray());
  }

  @Test
  void aRecordIsJudgedByTheOldestSchemaThatReachesBeyondItsOffset() {
    gives(good(null, "y"), read("{\"a\":\"x\",\"b\":\"y\"}", 0, 4));
    gives(good(null, null), read("{\"a\":\"x\"}", 0, 4));
    assertEquals("missing_required:b", read("{\"a\":\"x\"}", 0, 5)[1]);
    gives(good(null, "y"), read("{\"b\":\"y\"}", 0, 8));
    assertEquals("missing_required:a", read("{\"b\":\"y\"}", 0, 9)[1]);
    gives(good("x", null), read("{\"a\":\"x\"}", 0, 9));
  }

  @Test
  void eachPartitionHasItsOwnOffsetsAndOneThatHasNoneIsTheNewestSchemas() {
    gives(good(null, null), read("{}", 1, 1));
    assertEquals("missing_required:a", read("{}", 1, 2)[1]);
    assertEquals("missing_required:a", read("{}", 2, 0)[1]);
  }

  @Test
  void aColumnThatIsNoLongerThereIsJudgedWhereItWas() {
    assertEquals("wrong_type:gone", read("{\"gone\":1}", 0, 4)[1]);
    gives(good(null, "y"), read("{\"gone\":1,\"b\":\"y\"}", 0, 5));
  }

  @Test
  void aColumnThatOnlyAnEarlierSchemaKeepsComesLastAndIsNullBeyondItsOffset() {
    byte[] record = "{\"a\":\"x\",\"b\":\"y\",\"gone\":\"z\"}".getBytes(StandardCharsets.UTF_8);
    Versions all = of(GONE);
    gives(new Object[] {NOW_US, null, null, "y", "z"}, all.read(record, NOW_US, 0, 4));
    gives(new Object[] {NOW_US, null, null, "y", null}, all.read(record, NOW_US, 0, 5));
    gives(new Object[] {NOW_US, null, "x", "y", null}, all.read(record, NOW_US, 0, 9));
    gives(good(null, "y"), READER.read(record, NOW_US, 0, 4));
  }
}
