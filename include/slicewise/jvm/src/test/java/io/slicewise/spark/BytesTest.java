package io.slicewise.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.sql.Date;
import java.time.LocalDate;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import scala.jdk.javaapi.CollectionConverters;

/** Tags, members and expiries are the bytes that Python makes. */
class BytesTest {
  private static final int LONG = 400;

  @TestFactory
  Stream<DynamicTest> tagsAreTheGoldenOnes() {
    return Stream.concat(Golden.cases("keys.json", "tags"), Golden.cases("tail.json", "tags"))
        .map(each -> DynamicTest.dynamicTest(each.get("tag").asText(), () -> tag(each)));
  }

  private static void tag(JsonNode given) {
    List<String> kinds = Golden.texts(given.get("columns"), 1);
    boolean spread = !given.get("partition").isNull();
    EntityTag tag = new EntityTag(Golden.texts(given.get("columns"), 0), kinds, spread);
    byte[] made = tag.of(Golden.values(given.get("values"), kinds), given.get("partition").asInt());
    assertEquals(given.get("tag").asText(), new String(made, StandardCharsets.UTF_8));
  }

  @TestFactory
  Stream<DynamicTest> membersAreTheGoldenOnes() {
    return Golden.cases("tail.json", "members")
        .map(each -> DynamicTest.dynamicTest(each.get("columns") + ": " + each.get("values"), () -> member(each)));
  }

  private static void member(JsonNode given) {
    List<String> kinds = Golden.texts(given.get("columns"), 1);
    byte[] made =
        new Member(given.get("topic").asText(), kinds)
            .of(
                given.get("time").asLong(),
                given.get("partition").asInt(),
                given.get("offset").asLong(),
                Golden.values(given.get("values"), kinds));
    assertEquals(given.get("member").asText(), shown(made));
  }

  private static String shown(byte[] member) {
    if (member.length < LONG) {
      return HexFormat.of().formatHex(member);
    }
    CRC32 crc = new CRC32();
    crc.update(member);
    return String.format("%d bytes, crc %08x", member.length, crc.getValue());
  }

  @Test
  void keysAndFieldsAreTheGoldenOnes() {
    JsonNode golden = Golden.file("keys.json");
    TailUnit unit = unit("00000000000000aa", 1_000_000, 1, "null");
    byte[] tag = "user_id:string:42".getBytes(StandardCharsets.UTF_8);
    assertEquals(golden.get("keys").get("hot").asText(), text(unit.hotKey(tag)));
    assertEquals(golden.get("keys").get("list").asText(), text(unit.listKey(tag)));
    assertEquals(golden.get("keys").get("events").asText(), text(unit.membersKey(tag)));
    TailUnit later = unit("00000000000000aa.9", 1_000_000, 1, "null");
    assertEquals(golden.get("keys").get("hot of a term").asText(), text(later.hotKey(tag)));
    assertEquals(golden.get("fields").get("guard").asText(), text(unit.guard(2)));
  }

  @Test
  void expiriesAreTheGoldenOnes() {
    Golden.cases("tail.json", "expiries")
        .forEach(
            each -> {
              TailUnit unit = unit("u", each.get("slice_us").asLong(), each.get("retention_us").asLong(), "null");
              assertEquals(each.get("expiry").asLong(), unit.expiry(each.get("time").asLong()), each::toString);
            });
    Golden.cases("tail.json", "list_expiries")
        .forEach(
            each -> {
              String kept = "{\"range_us\":" + each.get("range_us") + ",\"rows\":" + each.get("rows");
              TailUnit unit = unit("u", 1, 1, kept + ",\"late_us\":0,\"most\":10}");
              assertEquals(each.get("expiry").asLong(), unit.listExpiry(each.get("time").asLong()), each::toString);
            });
    assertEquals(0, unit("u", 1, 0, "null").expiry(1), "nothing of a lifetime expires");
  }

  private static TailUnit unit(String name, long sliceUs, long retentionUs, String list) {
    String json =
        String.format(
            "{\"name\":\"%s\",\"keep\":\"k\",\"start\":{},\"slice_us\":%d,\"retention_us\":%d,\"entity\":[],"
                + "\"inputs\":[],\"spread\":false,\"list\":%s}",
            name, sliceUs, retentionUs, list);
    return TailUnit.of(Spec.parsed(json), 17, "0123456789abcdef0123456789abcdef");
  }

  private static String text(byte[] raw) {
    return new String(raw, StandardCharsets.UTF_8);
  }

  @Test
  void anArrayOfScalaIsOneOfJava() {
    Stored lists = Stored.of("array<long>");
    List<Long> values = List.of(1L, 2L);
    assertArrayEquals(lists.bytes(values), lists.bytes(CollectionConverters.asScala(values)));
  }

  @Test
  void aDateOfTheOldClassIsRefusedSinceItLacksDays() {
    assertEquals(-141_432, Stored.days(LocalDate.of(1582, 10, 10)));
    assertEquals(-141_432, Stored.days(-141_432));
    assertThrows(TailFailure.class, () -> Stored.days(new Date(0)));
  }

  @Test
  void aTypeWithoutAStoredFormIsRefused() {
    assertThrows(IllegalArgumentException.class, () -> Stored.of("float"));
  }
}
