package io.slicewise.wire;

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

/** Tags, members and stored values are the bytes that Python makes. */
class BytesTest {
  private static final int LONG = 400;

  @TestFactory
  Stream<DynamicTest> tagsAreTheGoldenOnes() {
    return Stream.concat(Golden.cases("keys.json", "tags"), Golden.cases("pending.json", "tags"))
        .map(golden -> DynamicTest.dynamicTest(golden.get("tag").asText(), () -> tag(golden)));
  }

  private static void tag(JsonNode given) {
    List<String> kinds = Golden.texts(given.get("columns"), 1);
    boolean perPartition = !given.get("partition").isNull();
    EntityTag tag = new EntityTag(Golden.texts(given.get("columns"), 0), kinds, perPartition);
    byte[] made = tag.of(Golden.values(given.get("values"), kinds), given.get("partition").asInt());
    assertEquals(given.get("tag").asText(), new String(made, StandardCharsets.UTF_8));
  }

  @TestFactory
  Stream<DynamicTest> membersAreTheGoldenOnes() {
    return Golden.cases("pending.json", "members")
        .map(golden ->
        DynamicTest.dynamicTest(golden.get("columns") + ": " + golden.get("values"), () ->
            member(golden)));
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
  void anArrayOfScalaIsOneOfJava() {
    Stored lists = Stored.of("array<long>");
    List<Long> values = List.of(1L, 2L);
    assertArrayEquals(lists.bytes(values), lists.bytes(CollectionConverters.asScala(values)));
  }

  @Test
  void aDateOfTheOldClassIsRefusedSinceItLacksDays() {
    assertEquals(-141_432, Stored.days(LocalDate.of(1582, 10, 10)));
    assertEquals(-141_432, Stored.days(-141_432));
    assertThrows(Failure.class, () -> Stored.days(new Date(0)));
  }

  @Test
  void aTypeWithoutAStoredFormIsRefused() {
    assertThrows(IllegalArgumentException.class, () -> Stored.of("float"));
  }
}
