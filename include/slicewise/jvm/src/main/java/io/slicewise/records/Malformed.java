package io.slicewise.records;

/** Bytes are not what their schema says. */
final class Malformed extends Exception {
  private static final long serialVersionUID = 1L;
  static final String BAD_TEXT = "bad_text";

  Malformed(String what) {
    super(what, null, false, false);
  }
}
