package io.slicewise.records;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.exc.InputCoercionException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;

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
  private final long least;
  private final long greatest;
  private final Field element;

  /** How the values of a column are read, and which buffers hold them. */
  public enum Kind {
    STRING,
    BIGINT,
    DOUBLE,
    FLOAT,
    BOOLEAN,
    DECIMAL,
    DATE,
    TIME,
    ARRAY
  }

  /**
   * @param kind string, bigint, double, float, boolean, decimal, date or time
   * @param kept whether the value is given; where it is not, it is only judged
   * @param timeForm of a time: s, ms, us or rfc3339
   * @param precision and scale: of a decimal
   */
  public Field(
      String name, String kind, boolean kept, boolean allowNan, String timeForm, int precision,
      int scale) {
    this(name, kind, kept, allowNan, timeForm, precision, scale, Long.MIN_VALUE, Long.MAX_VALUE,
        null);
  }

  private Field(
      String name,
      String kind,
      boolean kept,
      boolean allowNan,
      String timeForm,
      int precision,
      int scale,
      long least,
      long greatest,
      Field element) {
    this.name = name;
    this.kind = Kind.valueOf(kind.toUpperCase(java.util.Locale.ROOT));
    this.least = least;
    this.greatest = greatest;
    this.element = element;
    this.kept = kept;
    this.allowNan = allowNan;
    this.timeForm = timeForm;
    this.precision = precision;
    this.scale = scale;
  }

  /** A column of whole numbers in a range. */
  public static Field ranged(String name, boolean kept, long least, long greatest) {
    return new Field(name, "bigint", kept, false, "", 0, 0, least, greatest, null);
  }

  /** A column of lists of such values; one that is refused refuses the list. */
  public static Field array(String name, boolean kept, Field element) {
    return new Field(name, "array", kept, false, "", 0, 0, 0, 0, element);
  }

  /** The column that this JSON describes. */
  static Field of(JsonNode given) {
    String name = given.get("name").asText();
    boolean kept = given.get("kept").asBoolean();
    if (given.has("element")) {
      return array(name, kept, of(given.get("element")));
    }
    if (given.has("least")) {
      return ranged(name, kept, given.get("least").asLong(), given.get("greatest").asLong());
    }
    String kind = given.get("kind").asText();
    boolean allowNan = given.get("allow_nan").asBoolean();
    String timeForm = given.get("time_form").asText();
    return new Field(
        name, kind, kept, allowNan, timeForm, given.get("precision").asInt(), given.get("scale")
            .asInt());
  }

  public Kind kind() {
    return kind;
  }

  /**
   * The value at the parser, null for a null, a {@link Refused} for one that may not stand here.
   */
  Object read(JsonParser parser, JsonToken token) throws IOException {
    if (token == JsonToken.VALUE_NULL) {
      return null;
    }
    switch (kind) {
      case STRING:
        if (token != JsonToken.VALUE_STRING) {
          return Refused.WRONG_TYPE;
        }
        // of one that is only judged, that it is there
        return kept ? parser.getText() : Boolean.TRUE;
      case BOOLEAN:
        return token.isBoolean() ? (Object) (token == JsonToken.VALUE_TRUE) : Refused.WRONG_TYPE;
      case BIGINT:
        return wholeNumber(parser, token);
      case DOUBLE:
      case FLOAT:
        return real(parser, token);
      case DATE:
        return token == JsonToken.VALUE_STRING ? Instants.date(parser.getText())
            : Refused.WRONG_TYPE;
      case ARRAY:
        return array(parser, token);
      case DECIMAL:
        return decimal(parser, token);
      default:
        return time(parser, token);
    }
  }

  private Object array(JsonParser parser, JsonToken token) throws IOException {
    if (token != JsonToken.START_ARRAY) {
      return Refused.WRONG_TYPE;
    }
    List<Object> elements = new ArrayList<>();
    Object refused = null;
    for (JsonToken next = parser.nextToken(); next != JsonToken.END_ARRAY; next =
        parser.nextToken()) {
      Object value = element.read(parser, next);
      parser.skipChildren(); // a container that is here still
      if (value instanceof Refused && refused == null) {
        refused = value;
      } else if (kept) {
        elements.add(value);
      }
    }
    return refused != null ? refused : elements;
  }

  private Object wholeNumber(JsonParser parser, JsonToken token) throws IOException {
    Long whole = whole(parser, token);
    if (whole != null) {
      return whole >= least && whole <= greatest ? (Object) whole : Refused.OUT_OF_RANGE;
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
      if (kind == Kind.FLOAT) {
        number = (float) number; // the nearest float, as a producer of floats has it
      }
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
    BigDecimal number = new BigDecimal(text);
    if (number.precision() > MAX_DIGITS || number.scale() > MAX_DIGITS) {
      return Refused.WRONG_TYPE;
    }
    // more digits than the column's are more value
    if (number.stripTrailingZeros().scale() > scale) {
      return Refused.OUT_OF_RANGE;
    }
    BigDecimal scaled = number.setScale(scale);
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

  // ---- what a binary format says: its values have types of their own

  boolean isArray() {
    return element != null;
  }

  /** What the lists of an array hold. */
  public Field element() {
    return element;
  }

  /** Of a whole number. */
  Object ofWhole(long value) {
    switch (kind) {
      case BIGINT:
        return value >= least && value <= greatest ? (Object) value : Refused.OUT_OF_RANGE;
      case DOUBLE:
      case FLOAT:
        return ofReal(value);
      case DECIMAL:
        return ofDecimal(BigDecimal.valueOf(value));
      case TIME:
        Long micros = timeForm.equals("rfc3339") ? null : Instants.counted(value, timeForm);
        return timeForm.equals("rfc3339") ? Refused.WRONG_TYPE : micros == null ? Refused.BAD_TIME
            : micros;
      default:
        return Refused.WRONG_TYPE;
    }
  }

  /** Of a float or double. */
  Object ofReal(double value) {
    if (kind != Kind.DOUBLE && kind != Kind.FLOAT) {
      return Refused.WRONG_TYPE;
    }
    double number = kind == Kind.FLOAT ? (float) value : value;
    boolean endless = !(Math.abs(number) < Double.POSITIVE_INFINITY);
    if (endless && (!allowNan || Math.abs(value) < Double.POSITIVE_INFINITY)) {
      return Refused.OUT_OF_RANGE;
    }
    return Double.isNaN(number) ? Double.NaN : number == 0.0 ? 0.0 : number;
  }

  Object ofText(String value) {
    switch (kind) {
      case STRING:
        return value;
      case DATE:
        return Instants.date(value);
      case TIME:
        Long micros = timeForm.equals("rfc3339") ? Instants.rfc3339(value) : null;
        return !timeForm.equals("rfc3339") ? Refused.WRONG_TYPE : micros == null ? Refused.BAD_TIME
            : micros;
      default:
        return Refused.WRONG_TYPE;
    }
  }

  Object ofBoolean(boolean value) {
    return kind == Kind.BOOLEAN ? (Object) value : Refused.WRONG_TYPE;
  }

  Object ofDecimal(BigDecimal value) {
    if (kind != Kind.DECIMAL) {
      return Refused.WRONG_TYPE;
    }
    if (value.stripTrailingZeros().scale() > scale) {
      return Refused.OUT_OF_RANGE;
    }
    BigDecimal scaled = value.setScale(scale);
    return scaled.precision() > precision ? Refused.OUT_OF_RANGE : scaled;
  }

  /** Of days since 1970. */
  Object ofDay(long days) {
    return kind == Kind.DATE ? Instants.day(days) : Refused.WRONG_TYPE;
  }

  /** Of an instant, whatever form the others of its source have. */
  Object ofMicros(long micros) {
    return kind != Kind.TIME ? Refused.WRONG_TYPE : Instants.isTime(micros) ? (Object) micros
        : Refused.BAD_TIME;
  }
}
