package io.slicewise.spark;

/** Why a tail ended: what is wrong, where, what was expected, and what to do next, as every error of slicewise says. */
final class TailFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  TailFailure(String what, String where, String expected, String nextStep) {
    super(what + "; where: " + where + "; expected: " + expected + "; next step: " + nextStep);
  }

  /** With what led to it; not as its cause, since the last of the causes is what a driver tells. */
  TailFailure(String what, String where, String expected, String nextStep, Throwable why) {
    this(what, where, expected, nextStep);
    addSuppressed(why);
  }
}
