package io.slicewise.realtime;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import io.slicewise.records.Spec;
import io.slicewise.wire.Golden;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** Keys, fields and expiries of a unit are those that Python makes. */
class RealtimeUnitTest {
  @Test
  void keysAndFieldsAreTheGoldenOnes() {
    JsonNode golden = Golden.file("keys.json");
    RealtimeUnit unit = unit("00000000000000aa", 1_000_000, 1, "null");
    byte[] tag = "user_id:string:42".getBytes(StandardCharsets.UTF_8);
    assertEquals(golden.get("keys").get("hot").asText(), text(unit.hotKey(tag)));
    assertEquals(golden.get("keys").get("list").asText(), text(unit.listKey(tag)));
    assertEquals(golden.get("keys").get("events").asText(), text(unit.membersKey(tag)));
    RealtimeUnit later = unit("00000000000000aa.9", 1_000_000, 1, "null");
    assertEquals(golden.get("keys").get("hot of a term").asText(), text(later.hotKey(tag)));
    assertEquals(golden.get("fields").get("guard").asText(), text(unit.appliedField(2)));
  }

  @Test
  void expiriesAreTheGoldenOnes() {
    Golden.cases("pending.json", "expiries")
        .forEach(
            golden -> {
              RealtimeUnit unit =
                  unit("u", golden.get("slice_us").asLong(), golden.get("retention_us").asLong(),
                      "null");
              assertEquals(golden.get("expiry").asLong(), unit.expiry(golden.get("time").asLong()),
                  golden::toString);
            });
    Golden.cases("pending.json", "list_expiries")
        .forEach(
            golden -> {
              String kept = "{\"range_us\":" + golden.get("range_us") + ",\"rows\":"
                  + golden.get("rows");
              RealtimeUnit unit = unit("u", 1, 1, kept + ",\"late_us\":0,\"most\":10}");
              assertEquals(golden.get("expiry").asLong(),
                  unit.listExpiry(golden.get("time").asLong()),
                  golden::toString);
            });
    assertEquals(0, unit("u", 1, 0, "null").expiry(1), "nothing of a lifetime expires");
  }

  private static RealtimeUnit unit(String name, long sliceUs, long retentionUs, String list) {
    String json =
        String.format(
            "{\"name\":\"%s\",\"keep\":\"k\",\"start\":{},\"slice_us\":%d,\"retention_us\":%d,\"entity\":[],"
                + "\"inputs\":[],\"spread\":false,\"list\":%s}",
            name, sliceUs, retentionUs, list);
    return RealtimeUnit.of(Spec.parsed(json), 17, "0123456789abcdef0123456789abcdef");
  }

  private static String text(byte[] raw) {
    return new String(raw, StandardCharsets.UTF_8);
  }
}
