#!/usr/bin/env python3
"""A helper for a site with an Organization Issuer (features.ed25519): it reads
one node's facts from stdin and writes that node's configuration to stdout. It
needs Python 3 alone.

Set BROKER and ISSUER here, or in the environment of provision.
"""
import json
import os
import sys

BROKER = os.environ.get("BROKER", "nats://broker.example.net:4222")
ISSUER = os.environ.get("ISSUER", "0" * 64)


def answer(node):
    identity = node["identity"]
    if identity.endswith(".lab.example.net"):
        return {"defer": True, "msg": "the laboratory is provisioned by hand"}

    key = node["ed25519_pubkey"]
    if key:
        directory = key["directory"]
    elif os.environ.get("PROVISION_DRY_RUN"):
        directory = "/etc/choria"  # a dry run makes no key; the answer is only shown
    else:
        sys.exit("the input holds no ed25519_pubkey: turn on features.ed25519")

    return {
        "configuration": {
            "identity": identity,
            "plugin.choria.server.provision": "false",
            "plugin.choria.middleware_hosts": BROKER,
            "plugin.choria.use_srv": "false",
            "plugin.security.provider": "choria",
            "plugin.security.choria.token_file": directory + "/server.jwt",
            "plugin.security.choria.seed_file": directory + "/server.seed",
            "plugin.security.issuer.names": "choria",
            "plugin.security.issuer.choria.public": ISSUER,
            "rpcauthorization": "true",
            "rpcauthprovider": "action_policy",
        },
        "action_policies": {
            "rpcutil.policy": "policy default deny\nallow\t*\tping inventory get_fact\t*\t*\n",
        },
        "server_claims": {"permissions": {"streams": True}},
    }


# What fails ends with a traceback on stderr, which is shown to the operator, and
# exit code 1, which fails the node.
json.dump(answer(json.load(sys.stdin)), sys.stdout)
