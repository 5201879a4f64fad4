"""Prints theirs / ours, each the best of its rounds: ratios.py PEER THEIRS OURS..."""
import json
import sys


def main(peer, theirs, *ours):
    best, other = {}, {}
    for path in ours:
        with open(path) as file:
            for run in json.load(file)["benchmarks"]:
                time = run["best_ms"]
                best[run["name"]] = min(time, best.get(run["name"], time))
    with open(theirs) as file:
        for line in file:
            if not line.startswith("{"):
                continue
            for key, time in json.loads(line).items():
                if isinstance(time, str):
                    print(f"{peer}: {key} {time}")
                else:
                    other[key] = min(time, other.get(key, time))
    for name, time in best.items():
        tokens = name.split("tokens")[1].strip(":/").split("/")[0]
        peer_time = other.get(tokens, other.get("ms"))
        print(f"{peer} / ours  {name}: {peer_time / time:.2f}  ({peer_time:.2f} ms / {time:.2f} ms)")


main(*sys.argv[1:])
