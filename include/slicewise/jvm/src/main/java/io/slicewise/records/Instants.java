package io.slicewise.records;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Event times lie in [1970, 10000); everything else is no time. */
final class Instants {
  private static final long END_OF_TIME_US = 253_402_300_800_000_000L;
  private static final Pattern RFC3339 =
      Pattern.compile(
          "(\\d{4})-(\\d{2})-(\\d{2})[Tt ]([01]\\d|2[0-3]):([0-5]\\d):([0-5]\\d)(?:\\.(\\d+))?"
              + "(?:[Zz]|([+-])([01]\\d|2[0-3]):([0-5]\\d))");

  private static final Pattern DATE = Pattern.compile("(\\d{4})-(\\d{2})-(\\d{2})");

  private static final long FIRST_DAY = LocalDate.of(1, 1, 1).toEpochDay();
  private static final long LAST_DAY = LocalDate.of(9999, 12, 31).toEpochDay();

  private Instants() {}

  /** The day that a text yyyy-mm-dd names, from the year 1; refused where there is no such day. */
  static Object date(String text) {
    Matcher parts = DATE.matcher(text);
    if (!parts.matches() || number(parts, 1) == 0) {
      return Refused.BAD_DATE;
    }
    try {
      return LocalDate.of(number(parts, 1), number(parts, 2), number(parts, 3));
    } catch (DateTimeException noSuchDay) {
      return Refused.BAD_DATE;
    }
  }

  /** The day of so many days since 1970; refused beyond the years 1 to 9999. */
  static Object day(long days) {
    return days >= FIRST_DAY && days <= LAST_DAY ? LocalDate.ofEpochDay(days) : Refused.BAD_DATE;
  }

  /** Whether an event may have this time. */
  static boolean isTime(long micros) {
    return micros >= 0 && micros < END_OF_TIME_US;
  }

  /** Microseconds of a count in the unit s, ms or us; null beyond time. */
  static Long counted(long count, String unit) {
    long us = unit.equals("s") ? 1_000_000 : unit.equals("ms") ? 1_000 : 1;
    return count >= 0 && count < END_OF_TIME_US / us ? (Long) (count * us) : null;
  }

  /** Microseconds of an RFC 3339 text with zone; null where it is none, or such a day never was. */
  static Long rfc3339(String text) {
    Matcher parts = RFC3339.matcher(text);
    if (!parts.matches()) {
      return null;
    }
    long day;
    try {
      day = LocalDate.of(number(parts, 1), number(parts, 2), number(parts, 3)).toEpochDay();
    } catch (DateTimeException noSuchDay) {
      return null;
    }
    long seconds = number(parts, 4) * 3600L + number(parts, 5) * 60L + number(parts, 6);
    if (parts.group(8) != null) {
      long zone = number(parts, 9) * 3600L + number(parts, 10) * 60L;
      seconds -= parts.group(8).equals("+") ? zone : -zone;
    }
    long micros = (day * 86_400 + seconds) * 1_000_000 + fraction(parts.group(7));
    return micros >= 0 && micros < END_OF_TIME_US ? (Long) micros : null;
  }

  private static int number(Matcher parts, int group) {
    return Integer.parseInt(parts.group(group));
  }

  private static int fraction(String digits) {
    return digits == null ? 0 : Integer.parseInt((digits + "000000").substring(0, 6));
  }
}
