# An SFTP server of asyncssh. Arguments: port, host key, authorised keys, and what is odd about it.
import asyncio
import os
import sys

import asyncssh

port, host_key, keys, oddity = sys.argv[1:]


class Accounts(asyncssh.SSHServer):
    def begin_auth(self, username):
        return True


class Files(asyncssh.SFTPServer):
    # The draft's order: the path of the link comes first.
    def symlink(self, oldpath, newpath):
        if oddity == 'link-first':
            oldpath, newpath = newpath, oldpath
        os.symlink(oldpath, newpath)

    # Lists show what links point to.
    def lstat(self, path):
        return os.stat(path) if oddity == 'hides-links' and os.path.exists(path) else os.lstat(path)

    def remove(self, path):
        os.remove(os.path.realpath(path) if oddity == 'removes-targets' else path)

    # Lists end before their end, as if there were no more names.
    def scandir(self, path):
        if oddity == 'lists-nothing':
            async def nothing():
                for name in ():
                    yield name
            return nothing()
        return super().scandir(path)

    def listdir(self, path):
        return [] if oddity == 'lists-nothing' else super().listdir(path)


async def main():
    await asyncssh.create_server(
        Accounts,
        '127.0.0.1',
        int(port),
        server_host_keys=[host_key],
        authorized_client_keys=keys,
        sftp_factory=Files,
    )
    await asyncio.Event().wait()


asyncio.run(main())
