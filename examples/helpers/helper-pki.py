#!/usr/bin/env python3
"""A helper for a site with a certificate authority of its own (features.pki): it
signs what the node asks for and answers with its configuration. It needs
Python 3 and openssl.

Set BROKER and CA here, or in the environment of provision. CA is a directory
with ca.pem and ca.key, which this user must be able to read.
"""
import json
import os
import secrets
import subprocess
import sys
import tempfile

BROKER = os.environ.get("BROKER", "nats://broker.example.net:4222")
CA = os.environ.get("CA", "/etc/choria-provision/ca")


def sign(csr, identity):
    """Names and uses come from us, not from the request."""
    with tempfile.TemporaryDirectory() as work:
        extensions = os.path.join(work, "extensions")
        with open(extensions, "w") as file:
            file.write("subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth,clientAuth\n" % identity)
        return subprocess.run(
            ["openssl", "x509", "-req", "-CA", CA + "/ca.pem", "-CAkey", CA + "/ca.key",
             "-set_serial", str(secrets.randbits(127)), "-days", "365", "-sha256", "-extfile", extensions],
            input=csr, stdout=subprocess.PIPE, check=True, text=True).stdout


def answer(node):
    identity, csr = node["identity"], node["csr"]
    if not csr and os.environ.get("PROVISION_DRY_RUN"):
        return {"defer": True, "msg": "no certificate is signed in a dry run"}
    if not csr:
        sys.exit("the input holds no csr: turn on features.pki")

    ssldir = csr["ssldir"]
    with open(CA + "/ca.pem") as file:
        ca = file.read()
    return {
        "certificate": sign(csr["csr"], identity),
        "ca": ca,
        "configuration": {
            "identity": identity,
            "plugin.choria.server.provision": "false",
            "plugin.choria.middleware_hosts": BROKER,
            "plugin.choria.use_srv": "false",
            "plugin.security.provider": "file",
            "plugin.security.file.certificate": ssldir + "/certificate.pem",
            "plugin.security.file.key": ssldir + "/private.pem",
            "plugin.security.file.ca": ssldir + "/ca.pem",
            "rpcauthorization": "true",
            "rpcauthprovider": "action_policy",
        },
        "action_policies": {
            "rpcutil.policy": "policy default deny\nallow\t*\tping inventory get_fact\t*\t*\n",
        },
    }


json.dump(answer(json.load(sys.stdin)), sys.stdout)
