# One image for everything of slicewise that is Python or Spark: Airflow, the
# serving API, the stream, Spark's master and workers. Each process runs from
# the environment that it has on a developer's machine, made by the same
# `make setup` from the same locks.
FROM python:3.11.14-slim-bookworm AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*
ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# the JDK's folder carries the machine's architecture in its name
RUN ln -s "/usr/lib/jvm/java-17-openjdk-$(dpkg --print-architecture)" "$JAVA_HOME"

FROM base AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends git make maven openjdk-17-jdk-headless \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/slicewise
# the locks and jars change seldom, the code often
COPY Makefile pyproject.toml requirements.txt LICENSE ./
COPY requirements requirements
COPY include/slicewise/__init__.py include/slicewise/__init__.py
COPY include/slicewise/jvm include/slicewise/jvm
RUN make setup PYTHON=/usr/local/bin/python3.11
# Iceberg on S3, which the embedded platform does without
ARG ICEBERG_AWS_BUNDLE=org.apache.iceberg:iceberg-aws-bundle:1.12.0
RUN mvn -B -q dependency:copy -Dartifact="$ICEBERG_AWS_BUNDLE" -DoutputDirectory=/opt/slicewise/.jars/spark

FROM base
RUN useradd --create-home --uid 10001 slicewise \
 && install -d -o slicewise -g slicewise /var/lib/slicewise /var/lib/airflow
WORKDIR /opt/slicewise
COPY --from=build /opt/slicewise/.venvs .venvs
COPY --from=build /opt/slicewise/.jars .jars
COPY . .
RUN .venvs/platform/bin/python requirements/bytecode.py ours include dags plugins
ENV PATH=/opt/slicewise/.venvs/platform/bin:/opt/slicewise/.venvs/airflow/bin:/usr/local/bin:/usr/bin:/bin \
    AIRFLOW_HOME=/var/lib/airflow \
    SLICEWISE_STATE=/var/lib/slicewise
USER 10001
CMD ["slicewise", "status"]
