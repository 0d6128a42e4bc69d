"""The model that the agents were written for: at a server that does not exist."""

from langchain_openai import ChatOpenAI
from pydantic import SecretStr

URL = "http://127.0.0.1:9/v1"
model = ChatOpenAI(model="m", base_url=URL, api_key=SecretStr("none"), max_retries=0)
