package io.slicewise.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.exc.InputCoercionException;
import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;

/**
 * A column's value is exactly what the wire says, or refused: 1, 1.9, 1e0 and "1" differ.
 *
 * <p>A number without fraction and exponent is whole; one without exponent and of at most 38 digits
 * is a decimal; any other is a double.
 */
public final class Field implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int MAX_DIGITS = 38;
  private static final double BEYOND_LONG = 0x1p63;

  final String name;
  final boolean kept;
  private final Kind kind;
  private final boolean allowNan;
  private final String timeForm;
  private final int precision;
  private final int scale;

  private enum Kind {
    STRING,
    BIGINT,
    DOUBLE,
    BOOLEAN,
    DECIMAL,
    TIME
  }

  /**
   * @param kind string, bigint, double, boolean, decimal or time
   * @param kept whether the value is given; where it is not, it is only judged
   * @param timeForm of a time: s, ms, us or rfc3339
   * @param precision and scale: of a decimal
   */
  public Field(
      String name, String kind, boolean kept, boolean allowNan, String timeForm, int precision, int scale) {
    this.name = name;
    this.kind = Kind.valueOf(kind.toUpperCase(java.util.Locale.ROOT));
    this.kept = kept;
    this.allowNan = allowNan;
    this.timeForm = timeForm;
    this.precision = precision;
    this.scale = scale;
  }

  /** The value at the parser, null for a null, a {@link Refused} for one that may not stand here. */
  Object read(JsonParser parser, JsonToken token) throws IOException {
    if (token == JsonToken.VALUE_NULL) {
      return null;
    }
    switch (kind) {
      case STRING:
        if (token != JsonToken.VALUE_STRING) {
          return Refused.WRONG_TYPE;
        }
        return kept ? parser.getText() : Boolean.TRUE; // of one that is only judged, that it is there
      case BOOLEAN:
        return token.isBoolean() ? (Object) (token == JsonToken.VALUE_TRUE) : Refused.WRONG_TYPE;
      case BIGINT:
        return wholeNumber(parser, token);
      case DOUBLE:
        return real(parser, token);
      case DECIMAL:
        return decimal(parser, token);
      default:
        return time(parser, token);
    }
  }

  private static Object wholeNumber(JsonParser parser, JsonToken token) throws IOException {
    Long whole = whole(parser, token);
    if (whole != null) {
      return whole;
    }
    boolean huge = token.isNumeric() && Math.abs(parser.getDoubleValue()) >= BEYOND_LONG;
    return huge ? Refused.OUT_OF_RANGE : Refused.WRONG_TYPE;
  }

  /** Of a number without fraction and exponent that 64 bits hold; else null. */
  private static Long whole(JsonParser parser, JsonToken token) throws IOException {
    if (token != JsonToken.VALUE_NUMBER_INT) {
      return null;
    }
    try {
      return parser.getLongValue();
    } catch (InputCoercionException beyond) {
      return null;
    }
  }

  private Object real(JsonParser parser, JsonToken token) throws IOException {
    if (token.isNumeric()) {
      double number = parser.getDoubleValue();
      if (Math.abs(number) < Double.POSITIVE_INFINITY) {
        return number == 0.0 ? 0.0 : number; // canonical: a negative zero is zero
      }
      return Refused.OUT_OF_RANGE;
    }
    if (token == JsonToken.VALUE_STRING) {
      switch (parser.getText()) {
        case "NaN":
          return allowNan ? (Object) Double.NaN : Refused.OUT_OF_RANGE;
        case "Infinity":
          return allowNan ? (Object) Double.POSITIVE_INFINITY : Refused.OUT_OF_RANGE;
        case "-Infinity":
          return allowNan ? (Object) Double.NEGATIVE_INFINITY : Refused.OUT_OF_RANGE;
        default:
      }
    }
    return Refused.WRONG_TYPE;
  }

  private Object decimal(JsonParser parser, JsonToken token) throws IOException {
    if (!token.isNumeric()) {
      return Refused.WRONG_TYPE;
    }
    String text = parser.getText();
    if (text.indexOf('e') >= 0 || text.indexOf('E') >= 0) {
      return Refused.WRONG_TYPE;
    }
    BigDecimal found = new BigDecimal(text);
    if (found.precision() > MAX_DIGITS || found.scale() > MAX_DIGITS) {
      return Refused.WRONG_TYPE;
    }
    if (found.stripTrailingZeros().scale() > scale) { // more digits than the column's are more value
      return Refused.OUT_OF_RANGE;
    }
    BigDecimal scaled = found.setScale(scale);
    return scaled.precision() > precision ? Refused.OUT_OF_RANGE : scaled;
  }

  /** Microseconds UTC. Fractions below a microsecond are cut off. */
  private Object time(JsonParser parser, JsonToken token) throws IOException {
    if (timeForm.equals("rfc3339")) {
      if (token != JsonToken.VALUE_STRING) {
        return Refused.WRONG_TYPE;
      }
      Long micros = Instants.rfc3339(parser.getText());
      return micros == null ? Refused.BAD_TIME : micros;
    }
    Long count = whole(parser, token);
    if (count == null) {
      return Refused.WRONG_TYPE;
    }
    Long micros = Instants.counted(count, timeForm);
    return micros == null ? Refused.BAD_TIME : micros;
  }
}
