# An SFTP server of paramiko. Arguments: port, host key.
import os
import socket
import sys
import threading

import paramiko
from paramiko import SFTP_OK, SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface


class Account(paramiko.ServerInterface):
    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username):
        return 'publickey'

    def check_channel_request(self, kind, number):
        return paramiko.OPEN_SUCCEEDED


def tried(action):
    try:
        done = action()
        return SFTP_OK if done is None else done
    except OSError as error:
        return SFTPServer.convert_errno(error.errno)


class Handle(SFTPHandle):
    def stat(self):
        return tried(lambda: SFTPAttributes.from_stat(os.fstat(self.readfile.fileno())))

    def chattr(self, attributes):
        def change():
            self.writefile.flush()
            SFTPServer.set_file_attr(self.filename, attributes)
        return tried(change)


class Files(SFTPServerInterface):
    def list_folder(self, path):
        def names():
            listed = []
            for name in os.listdir(path):
                attributes = SFTPAttributes.from_stat(os.lstat(os.path.join(path, name)))
                attributes.filename = name
                listed.append(attributes)
            return listed
        return tried(names)

    def open(self, path, flags, attributes):
        def opened():
            descriptor = os.open(path, flags, attributes.st_mode or 0o666)
            mode = 'wb' if flags & os.O_WRONLY else 'r+b' if flags & os.O_RDWR else 'rb'
            file = os.fdopen(descriptor, mode)
            handle = Handle(flags)
            handle.filename, handle.readfile, handle.writefile = path, file, file
            return handle
        return tried(opened)

    def canonicalize(self, path):
        return os.path.normpath(os.path.join(os.getcwd(), path))

    def stat(self, path):
        return tried(lambda: SFTPAttributes.from_stat(os.stat(path)))

    def lstat(self, path):
        return tried(lambda: SFTPAttributes.from_stat(os.lstat(path)))

    def remove(self, path):
        return tried(lambda: os.remove(path))

    def rename(self, old, new):
        return paramiko.SFTP_FAILURE if os.path.lexists(new) else tried(lambda: os.rename(old, new))

    def mkdir(self, path, attributes):
        return tried(lambda: os.mkdir(path))

    def rmdir(self, path):
        return tried(lambda: os.rmdir(path))

    def chattr(self, path, attributes):
        return tried(lambda: SFTPServer.set_file_attr(path, attributes))

    def symlink(self, target, path):
        return tried(lambda: os.symlink(target, path))

    def readlink(self, path):
        return tried(lambda: os.readlink(path))


def serve(connection, key):
    transport = paramiko.Transport(connection)
    transport.add_server_key(key)
    transport.set_subsystem_handler('sftp', SFTPServer, Files)
    transport.start_server(server=Account())
    channels = []
    while transport.is_active():
        channels.append(transport.accept(1))


port, host_key = sys.argv[1:]
key = paramiko.RSAKey(filename=host_key)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', int(port)))
listener.listen(16)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection, key), daemon=True).start()
