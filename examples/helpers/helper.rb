#!/usr/bin/env ruby
# A helper for a site with an Organization Issuer (features.ed25519): it reads
# one node's facts from stdin and writes that node's configuration to stdout. It
# needs Ruby alone.
#
# Set BROKER and ISSUER here, or in the environment of provision.
require "json"

BROKER = ENV.fetch("BROKER", "nats://broker.example.net:4222")
ISSUER = ENV.fetch("ISSUER", "0" * 64)

def answer(node)
  identity = node.fetch("identity")
  if identity.end_with?(".lab.example.net")
    return { defer: true, msg: "the laboratory is provisioned by hand" }
  end

  if (key = node["ed25519_pubkey"])
    directory = key.fetch("directory")
  elsif ENV["PROVISION_DRY_RUN"]
    directory = "/etc/choria" # a dry run makes no key; the answer is only shown
  else
    abort "the input holds no ed25519_pubkey: turn on features.ed25519"
  end

  {
    configuration: {
      "identity" => identity,
      "plugin.choria.server.provision" => "false",
      "plugin.choria.middleware_hosts" => BROKER,
      "plugin.choria.use_srv" => "false",
      "plugin.security.provider" => "choria",
      "plugin.security.choria.token_file" => "#{directory}/server.jwt",
      "plugin.security.choria.seed_file" => "#{directory}/server.seed",
      "plugin.security.issuer.names" => "choria",
      "plugin.security.issuer.choria.public" => ISSUER,
      "rpcauthorization" => "true",
      "rpcauthprovider" => "action_policy"
    },
    action_policies: {
      "rpcutil.policy" => "policy default deny\nallow\t*\tping inventory get_fact\t*\t*\n"
    },
    server_claims: { permissions: { streams: true } }
  }
end

# What fails ends with a trace on stderr, which is shown to the operator, and exit
# code 1, which fails the node.
puts JSON.generate(answer(JSON.parse($stdin.read)))
