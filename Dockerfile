# The agent with its included model: docker build -t agentflow . && docker run --rm agentflow
FROM python:3.12-slim

RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap make \
    && rm -rf /var/lib/apt/lists/* && useradd --create-home agent
WORKDIR /home/agent/agentflow
COPY --chown=agent . .
RUN chown agent .
USER agent
RUN make .venv/with-core
ENV PATH=/home/agent/agentflow/.venv/bin:$PATH

CMD ["make", "run"]
