package io.slicewise.wire;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.List;

/**
 * One value has exactly one text, and an entity one tag: to the byte that of
 * `stores/online/keys.py`.
 */
public final class EntityTag {
  private static final char[] HEX = "0123456789ABCDEF".toCharArray();
  private static final String PLAIN = "-._~";

  private final String[] heads;
  private final String[] kinds;
  private final boolean perPartition;

  /**
   * @param names of the entity's columns, sorted
   * @param perPartition whether the partition stands in the tag
   */
  public EntityTag(List<String> names, List<String> kinds, boolean perPartition) {
    this.kinds = kinds.toArray(new String[0]);
    this.heads = new String[names.size()];
    for (int i = 0; i < heads.length; i++) {
      heads[i] = (i == 0 ? "" : ",") + encoded(names.get(i)) + ":" + encoded(this.kinds[i]) + ":";
    }
    this.perPartition = perPartition;
  }

  /** values: of the entity's columns, none of them null. */
  public byte[] of(Object[] values, int partition) {
    StringBuilder tag = new StringBuilder();
    for (int i = 0; i < heads.length; i++) {
      tag.append(heads[i]).append(text(values[i], kinds[i]));
    }
    if (perPartition) {
      tag.append(";p=").append(partition);
    }
    return tag.toString().getBytes(StandardCharsets.ISO_8859_1); // all of it is ASCII
  }

  private static String text(Object value, String kind) {
    if (value instanceof String) {
      return encoded((String) value);
    }
    if (value instanceof BigDecimal) {
      return ((BigDecimal) value).setScale(Stored.scale(kind)).toPlainString();
    }
    return kind.equals("date") ? LocalDate.ofEpochDay(Stored.days(value)).toString()
        : value.toString();
  }

  /** Percent-encoded UTF-8. */
  static String encoded(String text) {
    for (int i = 0; i < text.length(); i++) {
      if (!plain(text.charAt(i))) {
        return percent(text.getBytes(StandardCharsets.UTF_8));
      }
    }
    return text;
  }

  private static String percent(byte[] raw) {
    StringBuilder out = new StringBuilder(3 * raw.length);
    for (byte octet : raw) {
      if (plain((char) (octet & 0xff))) {
        out.append((char) octet);
      } else {
        out.append('%').append(HEX[octet >> 4 & 0xf]).append(HEX[octet & 0xf]);
      }
    }
    return out.toString();
  }

  private static boolean plain(char c) {
    return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
        || PLAIN.indexOf(c) >= 0;
  }
}
