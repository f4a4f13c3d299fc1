package io.slicewise.wire;

import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

/** Where a node listens, and as whom to speak to it; its text shows no secret. */
public final class RedisAddress {
  private static final int PORT = 6379;

  final String host;
  final int port;
  final String path;
  final boolean tls;
  final String user;
  final String password;

  private RedisAddress(String host, int port, String path, boolean tls, String user,
      String password) {
    this.host = host;
    this.port = port;
    this.path = path;
    this.tls = tls;
    this.user = user;
    this.password = password;
  }

  /**
   * redis://[user:password@]host:port[/0], rediss://..., unix:///path, as
   * `stores/online/redis/wire.py` reads them.
   */
  public static RedisAddress of(String url) {
    URI parts = URI.create(url);
    String scheme = String.valueOf(parts.getScheme());
    boolean local = scheme.equals("unix");
    String database = local || parts.getRawPath() == null ? "" : parts.getRawPath()
        .replace("/", "");
    if (!local && !scheme.equals("redis") && !scheme.equals("rediss") || !database.isEmpty()
        && !database.equals("0")) {
      throw new Failure(
          "the store's address is none",
          "scheme " + scheme,
          "redis://host:port, rediss://host:port or unix:///path; database 0",
          "see SLICEWISE_REDIS_URL");
    }
    String info = parts.getRawUserInfo();
    int colon = info == null ? -1 : info.indexOf(':');
    String user = info == null ? "" : decoded(colon < 0 ? info : info.substring(0, colon));
    return new RedisAddress(
        parts.getHost() == null ? "127.0.0.1" : parts.getHost().replaceAll("^\\[|\\]$", ""),
        parts.getPort() < 0 ? PORT : parts.getPort(),
        local ? parts.getPath() : null,
        scheme.equals("rediss"),
        user.isEmpty() ? "default" : user,
        colon < 0 || colon + 1 == info.length() ? null : decoded(info.substring(colon + 1)));
  }

  /** Percent-encoding only: a plus is a plus. */
  private static String decoded(String text) {
    return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
  }

  @Override
  public String toString() {
    return path == null ? host + ":" + port : path;
  }
}
