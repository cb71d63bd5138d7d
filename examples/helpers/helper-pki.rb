#!/usr/bin/env ruby
# A helper for a site with a certificate authority of its own (features.pki): it
# signs what the node asks for and answers with its configuration. It needs Ruby
# with its openssl library.
#
# Set BROKER and CA here, or in the environment of provision. CA is a directory
# with ca.pem and ca.key, which this user must be able to read.
require "json"
require "openssl"
require "securerandom"

BROKER = ENV.fetch("BROKER", "nats://broker.example.net:4222")
CA = ENV.fetch("CA", "/etc/choria-provision/ca")

# Names and uses come from us, not from the request.
def sign(csr, ca, identity)
  request = OpenSSL::X509::Request.new(csr)
  abort "the request is not signed by its key" unless request.verify(request.public_key)

  cert = OpenSSL::X509::Certificate.new
  cert.version = 2 # that is X.509 version 3
  cert.serial = OpenSSL::BN.new(SecureRandom.hex(15), 16)
  cert.subject = OpenSSL::X509::Name.new([["CN", identity]])
  cert.issuer = ca.subject
  cert.public_key = request.public_key
  cert.not_before = Time.now - 300 # clocks differ
  cert.not_after = Time.now + 365 * 24 * 3600

  extensions = OpenSSL::X509::ExtensionFactory.new(ca, cert)
  cert.add_extension(extensions.create_extension("subjectAltName", "DNS:#{identity}"))
  cert.add_extension(extensions.create_extension("extendedKeyUsage", "serverAuth,clientAuth"))
  cert.sign(OpenSSL::PKey.read(File.read("#{CA}/ca.key")), OpenSSL::Digest.new("SHA256")).to_pem
end

def answer(node)
  identity = node.fetch("identity")
  csr = node["csr"]
  if csr.nil? && ENV["PROVISION_DRY_RUN"]
    return { defer: true, msg: "no certificate is signed in a dry run" }
  end
  abort "the input holds no csr: turn on features.pki" if csr.nil?

  ssldir = csr.fetch("ssldir")
  ca = OpenSSL::X509::Certificate.new(File.read("#{CA}/ca.pem"))
  {
    certificate: sign(csr.fetch("csr"), ca, identity),
    ca: ca.to_pem,
    configuration: {
      "identity" => identity,
      "plugin.choria.server.provision" => "false",
      "plugin.choria.middleware_hosts" => BROKER,
      "plugin.choria.use_srv" => "false",
      "plugin.security.provider" => "file",
      "plugin.security.file.certificate" => "#{ssldir}/certificate.pem",
      "plugin.security.file.key" => "#{ssldir}/private.pem",
      "plugin.security.file.ca" => "#{ssldir}/ca.pem",
      "rpcauthorization" => "true",
      "rpcauthprovider" => "action_policy"
    },
    action_policies: {
      "rpcutil.policy" => "policy default deny\nallow\t*\tping inventory get_fact\t*\t*\n"
    }
  }
end

puts JSON.generate(answer(JSON.parse($stdin.read)))
