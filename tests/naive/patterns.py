"""Whether texts match, one after the other."""


def match(data, offsets, classes, table, verdict, out):
    for k in range(len(offsets) - 1):
        state = 0 if offsets[k] < offsets[k + 1] else None
        for byte in data[offsets[k] : offsets[k + 1]].tolist():
            if verdict[state] & 5:
                break
            if classes[byte] == 255:
                state = None
                break
            state = int(table[state][classes[byte]])
        out[k] = 2 if state is None else int(verdict[state] & 3 > 0)
