# `redraft serve` as an image, built from a checkout. It holds no key, token or password: they come when it is started.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/install.txt requirements/serve.txt requirements/
RUN python -m venv /opt/redraft \
    && /opt/redraft/bin/pip install --no-cache-dir --only-binary :all: --no-deps --require-hashes \
       --requirement requirements/install.txt --requirement requirements/serve.txt
COPY pyproject.toml README.md LICENSE ./
COPY api api
COPY state state
COPY models models
COPY nodes nodes
COPY graphs graphs
COPY faces faces
COPY evals evals
COPY retrieval retrieval
COPY sandbox sandbox
COPY server server
COPY travel travel
COPY folders folders
RUN /opt/redraft/bin/pip install --no-cache-dir --no-deps --no-build-isolation \
       ".[a2a,encryption,mcp,otel,postgres,sandbox,serve,travel,writing]"

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libseccomp2 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home redraft
COPY --from=build /opt/redraft /opt/redraft
ENV PATH=/opt/redraft/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001
WORKDIR /tmp
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
# On a host that others reach, it does not start without a token: --token-file, or REDRAFT_SERVE_TOKENS.
ENTRYPOINT ["redraft", "serve", "--host", "0.0.0.0", "--port", "8000"]
