# rpm gives files to their owner while it unpacks them: the user comes first.
if ! getent passwd choria-provision >/dev/null; then
	getent group choria-provision >/dev/null || groupadd --system choria-provision
	useradd --system --gid choria-provision --home-dir / --no-create-home \
		--shell /sbin/nologin --comment "Choria provisioner" choria-provision
fi
