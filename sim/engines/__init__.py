"""The instruction set: for every call its check and cost (`describe`) and its values (`compute`), engine by engine."""

UNSUPPORTED: dict[str, str] = {
    "sendrecv": "both cores of an LNC 2 launch would have to run at once",
}
