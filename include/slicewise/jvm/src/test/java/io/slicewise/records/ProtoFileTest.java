package io.slicewise.records;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A schema is read whole, or refused with the reason. */
class ProtoFileTest {
  private static ProtoFile.Message first(String text) {
    return ProtoFile.of(new Registry.Registered("PROTOBUF", text, List.of()))
        .message(new int[] {0});
  }

  @ParameterizedTest
  @ValueSource(strings = {"// end", "//end\n", "/* end */", "// a\n/* b\n c */ // d", " // }"})
  void aSchemaMayEndWithAComment(String comment) {
    String text = "syntax = \"proto3\"; message M { int32 x = 1; /* { */ } " + comment;
    assertEquals("x", first(text).members.get(1).name);
  }

  @Test
  void numbersMayBeHexadecimalOrOctal() {
    ProtoFile.Message read =
        first("message M { optional int32 x = 0x10; optional int32 y = 017; }");
    assertEquals(List.of(15, 16), List.copyOf(new TreeSet<>(read.members.keySet())));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "message M { optional int32 x = 1 [default = 3]; } | a default of proto2 is not read",
        "message M { repeated group G = 1 { optional int32 x = 1; } } | a group is not read",
        "message M { oneof o { group G = 1 { optional int32 x = 1; } } } | a group is not read",
        "message M { optional Other x = 1; } | type Other is not known",
        "message M { optional int32 x = 1 | it ends early",
        "nonsense M { } | nonsense at the top is not known",
        "message M { @ } | unreadable from character 11",
      })
  void aSchemaThatIsNotUnderstoodIsRefused(String text, String reason) {
    assertEquals(reason, assertThrows(IllegalArgumentException.class, () -> first(text))
        .getMessage());
  }
}
