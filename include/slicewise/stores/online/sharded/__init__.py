"""Operations over several nodes."""
