package io.slicewise.spark;

/** Why a tail ended: what is wrong, where, what was expected, and what to do next, as every error of slicewise says. */
final class TailFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  TailFailure(String what, String where, String expected, String nextStep, Throwable cause) {
    super(what + "; where: " + where + "; expected: " + expected + "; next step: " + nextStep, cause);
  }

  TailFailure(String what, String where, String expected, String nextStep) {
    this(what, where, expected, nextStep, null);
  }
}
