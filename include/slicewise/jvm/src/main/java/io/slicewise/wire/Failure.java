package io.slicewise.wire;

/**
 * Ends a task: says what is wrong, where, what was expected, and what to do next, as every error of
 * slicewise says.
 */
public final class Failure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public Failure(String what, String where, String expected, String nextStep) {
    super(what + "; where: " + where + "; expected: " + expected + "; next step: " + nextStep);
  }

  /** With what led to it; not as its cause, since the last of the causes is what a driver tells. */
  public Failure(String what, String where, String expected, String nextStep, Throwable why) {
    this(what, where, expected, nextStep);
    addSuppressed(why);
  }
}
