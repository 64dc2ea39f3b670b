"""The Python side of the `python` tool.

The worker starts this once per interpreter. It loads the usual modules and then forks children
ahead of their calls: each waits for one job on its own channel, runs it and ends, so that no call
sees what another one did. Standard output and error are pipes to the worker; the result goes over
the channel. With the argument --call it is such a child itself, and descriptor 3 is its channel.

Control socket (descriptor 3), one message each:
  worker -> here   F<file>            fork one more child; it writes 0 to the file, if there is one,
                                      to enter its cgroup
  here -> worker   S<pid>             a child, with its channel, its output and its errors attached
                   X<pid> <status>    a child has ended, status as of waitpid
                   E<text>            a fork failed
Channel of a child: frames of an 8 byte length and a body. A job is JSON. A reply is one byte, `c`
when the child leaves nothing behind and `d` when it may, and JSON.
"""
import array
import ast
import asyncio
import atexit
import base64
import builtins
import collections
import csv
import datetime
import decimal
import faulthandler
import fcntl
import functools
import gc
import hashlib
import importlib
import inspect
import io
import itertools
import json
import linecache
import math
import os
import random
import re
import resource
import select
import signal
import socket
import statistics
import string
import struct
import symtable
import sys
import textwrap
import threading
import time
import traceback
import types
import urllib.parse
import urllib.request
import uuid

try:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    prctl = libc.prctl
except (ImportError, OSError, AttributeError):
    libc = prctl = None

CONTROL = 3
CHANNEL = 100
CALL_NICENESS = 10
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITIES_VERSION = 0x20080522
CLONE_NEWUSER = 0x10000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
TRACEBACK_CHARACTERS_MAX = 16384
CONTEXT_NAMES = ("workload", "ctx", "iter", "execution_id", "step")
# What an exception means to a policy; the first that matches counts.
KINDS = (
    ("parse", (json.JSONDecodeError, UnicodeError, SyntaxError)),
    ("schema", (TypeError, ValueError, LookupError, AssertionError)),
)


class Missing(ImportError):
    """Several modules at once; shown as the ImportError that it is."""


class Cannot(Exception):
    """The job cannot begin: a code for the worker, and why."""


class Broken(AssertionError):
    """What `assert` promised does not hold."""


# Values -----------------------------------------------------------------------------------------


def plain(value):
    """What JSON has no form for."""
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    return str(value)


def finite(value):
    """The same value with null for what is not finite, and text for keys."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key if isinstance(key, str) else key_text(key): finite(item)
                for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return finite(plain(value))


def key_text(key):
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    return str(key)


def encode(value):
    try:
        return json.dumps(value, default=plain, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError):
        # Keys of other types, or numbers that are not finite. A circle fails once more.
        return json.dumps(finite(value), allow_nan=False, ensure_ascii=False)


# One job ----------------------------------------------------------------------------------------


def load_libraries(libs, scope):
    """`libs`: a list of modules, or alias -> module, or alias -> {from, import}."""
    missing = []
    entries = []
    if isinstance(libs, str):
        libs = [libs]
    for entry in libs if isinstance(libs, list) else [libs]:
        if isinstance(entry, dict):
            entries.extend(entry.items())
        else:
            entries.append((None, entry))
    for alias, wanted in entries:
        try:
            if isinstance(wanted, dict):
                module = importlib.import_module(wanted["from"])
                names = wanted["import"]
                for name in names if isinstance(names, list) else [names]:
                    found = getattr(module, name, None)
                    if found is None:
                        found = importlib.import_module(wanted["from"] + "." + name)
                    scope[name if isinstance(names, list) else alias] = found
            else:
                name = str(wanted or alias)
                module = importlib.import_module(name)
                if alias is None:
                    alias = name.split(".")[0]
                    module = sys.modules[alias]
                scope[alias] = module
        except ModuleNotFoundError as error:
            missing.append(error.name or str(wanted))
    if missing:
        raise Missing("missing Python modules: " + ", ".join(missing))


def compile_job(source, filename):
    """Code to evaluate, and whether it defines __noetl_step__ because of a top-level return."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(source, filename, "exec", flags, dont_inherit=True), False
    except SyntaxError as error:
        if "'return' outside function" not in str(error):
            raise
    # The whole becomes the body of a function whose names stay global, so it reads as before.
    tree = ast.parse(source, filename)
    table = symtable.symtable(source, filename, "exec")
    names = sorted({symbol.get_name() for symbol in table.get_symbols()
                    if symbol.is_assigned() or symbol.is_imported()})
    first = [ast.Global(names=names)] if names else []
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        step = kind(name="__noetl_step__", args=ast.arguments(
            posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
            body=first + tree.body, decorator_list=[], type_params=[])
        module = ast.fix_missing_locations(ast.Module(body=[step], type_ignores=[]))
        try:
            return compile(module, filename, "exec", dont_inherit=True), True
        except SyntaxError as error:
            if kind is ast.AsyncFunctionDef or "outside async function" not in str(error):
                raise
    raise AssertionError("one of the two compiles or raises")


def finished(value):
    return asyncio.run(awaited(value)) if inspect.isawaitable(value) else value


async def awaited(value):
    return await value


def call_main(main, args, context):
    sources = [args] + [args[name] for name in ("input", "data") if isinstance(args.get(name), dict)]
    whole = {"context": context, "args": args, "input": args, "input_data": args, "data": args}
    positional, named, taken, rest = [], {}, set(), False
    for name, parameter in inspect.signature(main).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = True
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        for source in sources:
            if name in source:
                value = source[name]
                break
        else:
            if name == "context" or name not in context and name in whole:
                value = whole.get(name)
                if name not in whole:
                    continue
            elif name in context:
                value = context[name]
            elif parameter.default is parameter.empty:
                raise TypeError(f"main() needs '{name}', which is not among the inputs")
            else:
                continue
            if name in ("data", "input") and parameter.default is not parameter.empty:
                continue
        taken.add(name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[name] = value
    if rest:
        named.update({name: value for name, value in args.items() if name not in taken})
    return main(*positional, **named)


def check_before(promise, args):
    if isinstance(promise, dict):
        absent = [name for name in promise.get("expects") or [] if name not in args]
        if absent:
            raise Broken("expected inputs are missing: " + ", ".join(map(str, absent)))


def check_after(promise, value, scope):
    if isinstance(promise, dict):
        keys = promise.get("returns") or []
        if keys and not isinstance(value, dict):
            raise Broken(f"the result must be a map with {', '.join(map(str, keys))}")
        absent = [key for key in keys if key not in value]
        if absent:
            raise Broken("the result lacks " + ", ".join(map(str, absent)))
    elif promise:
        for expression in promise if isinstance(promise, list) else [promise]:
            if not eval(str(expression), {**scope, "result": value}):
                raise Broken(f"{expression} does not hold")


def run_code(job):
    """Whether there is a value, and the value."""
    args = job["args"]
    context = job["context"]
    filename = job["filename"]
    source = job["code"]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    scope = module.__dict__
    scope.update({name: context[name] for name in CONTEXT_NAMES if name in context})
    scope.update(args=args, input_data=args, variables=context, context=context)
    scope.update(args)
    scope["__builtins__"] = builtins
    scope["__file__"] = filename
    sys.path[:0] = job.get("sys_path") or []
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    if job.get("libs"):
        load_libraries(job["libs"], scope)
    promise = job.get("assert")
    check_before(promise, args)
    code, has_return = compile_job(source, filename)
    given = args.get("result")
    try:
        finished(eval(code, scope))
        if has_return:
            value = finished(scope["__noetl_step__"]())
            has_value = True
        else:
            value = finished(scope.get("result"))
            has_value = "result" in scope and (value is not given or "result" not in args)
            if value is None and callable(scope.get("main")):
                value = finished(call_main(scope["main"], args, context))
                has_value = True
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise
        value = scope.get("result")
        has_value = "result" in scope
    check_after(promise, value, scope)
    return has_value, value


def describe(error, filename):
    """An exception as the worker reports it, without the frames of this file."""
    start = error.__traceback__
    while start is not None and start.tb_frame.f_code.co_filename != filename:
        start = start.tb_next
    kind = type(error)
    text = "".join(traceback.format_exception(kind, error, start))
    last = "".join(traceback.format_exception_only(kind, error)[-1:]).strip()
    name = kind.__name__
    if kind in (Missing, Broken):
        name = kind.__bases__[0].__name__
        text = text.replace("__main__." + kind.__name__, name).replace(kind.__name__ + ":", name + ":")
        last = f"{name}: {error}"
    return {
        "type": name,
        "line": last,
        "traceback": text[-TRACEBACK_CHARACTERS_MAX:],
        "kind": next((label for label, kinds in KINDS if isinstance(error, kinds)), "tool_error"),
        "exit_code": error.code if isinstance(error, SystemExit) and isinstance(error.code, int)
                     else 1,
    }


def run_job(job):
    """The reply to a job as JSON text."""
    try:
        has_value, value = run_code(job)
        text = encode(value)
        return '{"ok":true,"has_value":%s,"value":%s}' % ("true" if has_value else "false", text)
    except BaseException as error:  # whatever the code of a user raises ends here
        return '{"ok":false,"error":%s}' % json.dumps(describe(error, job["filename"]))


# A child ----------------------------------------------------------------------------------------


def read_exactly(channel, size):
    parts = []
    while size > 0:
        part = channel.recv(min(size, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def checked(result, what):
    if result != 0:
        raise Cannot("SANDBOX", f"`network: deny` is not possible on this host: cannot {what}: "
                     + os.strerror(ctypes.get_errno()))


def deny_network(namespaces):
    """A network of our own with nothing but a loopback device, and no privilege to leave it."""
    if libc is None:
        raise Cannot("SANDBOX", "`network: deny` needs the Python module ctypes")
    user, group = os.geteuid(), os.getegid()
    checked(libc.unshare(namespaces), "make namespaces")
    try:
        if namespaces & CLONE_NEWUSER:
            for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"),
                               ("gid_map", f"{group} {group} 1")):
                with open("/proc/self/" + name, "w") as file:
                    file.write(text)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
    except OSError as error:
        raise Cannot("SANDBOX", f"`network: deny` is not possible on this host: {error}") from None
    # What runs from here on can gain no privileges: the worker has seen to that.
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    checked(libc.capset(head, (ctypes.c_uint32 * 6)()), "drop capabilities")


def prepare(job):
    # A process that is kept for more jobs has done it already.
    if job.get("namespaces") and not prepare.denied:
        deny_network(job["namespaces"])
        prepare.denied = True
    for which, limit in job["limits"]:
        try:
            resource.setrlimit(which, (limit, limit))
        except (ValueError, OSError):
            pass  # more than we may have: the limit there is stays
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    try:
        os.chdir(job["cwd"])
    except OSError as error:
        raise Cannot("CONFIG", f"directory {error.filename}: {error.strerror}") from None


prepare.denied = False


def leaves_nothing():
    """Orphans of our descendants come to us, so no children means no descendants."""
    try:
        os.waitpid(-1, os.WNOHANG)
        return False
    except ChildProcessError:
        return True


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass


def serve(channel):
    standard_path = list(sys.path)
    while True:
        (size,) = struct.unpack(">Q", read_exactly(channel, 8))
        job = json.loads(read_exactly(channel, size))
        try:
            prepare(job)
        except Cannot as error:
            code, text = error.args
            reply = '{"ok":false,"code":"%s","cannot":%s}' % (code, json.dumps(text))
        else:
            reply = run_job(job)
        if not job["keep"]:
            try:
                if threading.active_count() > 1:
                    threading._shutdown()
                atexit._run_exitfuncs()
            except BaseException:
                pass
        flush()
        body = reply.encode("utf-8", "replace")
        mark = b"c" if leaves_nothing() else b"d"
        channel.sendall(struct.pack(">Q", len(body) + 1) + mark + body)
        if not job["keep"]:
            os._exit(0)
        sys.path[:] = standard_path
        del job, reply, body
        gc.collect()


def take_channel(descriptor):
    # Away from the low numbers, which programs like to close.
    channel = socket.socket(fileno=os.dup2(descriptor, CHANNEL, inheritable=False))
    os.closerange(3, CHANNEL)
    # Shows where the code was when its time ended.
    faulthandler.register(signal.SIGTERM, file=2, chain=True)
    return channel


def become_child(channel, output, errors, group, zygote):
    os.setsid()
    if prctl:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != zygote:
        os._exit(0)
    if group:
        file = os.open(group, os.O_WRONLY)
        os.write(file, b"0")
        os.close(file)
    # However many processes a call starts, the worker and the other calls go before them.
    os.nice(CALL_NICENESS)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    kept = take_channel(channel.detach())
    gc.enable()
    # Touches the memory that a job needs, before one waits for it.
    run_job({"args": {"a": 1}, "context": {}, "filename": "<step>", "code": "result = {'a': a}"})
    linecache.cache.pop("<step>", None)
    serve(kept)


# The parent of the children ---------------------------------------------------------------------


def fork_child(control, group):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    output_read, output_write = os.pipe()
    errors_read, errors_write = os.pipe()
    zygote = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        control.send(b"E" + str(error).encode())
        pid = -1
    if pid == 0:
        try:
            become_child(theirs, output_write, errors_write, group, zygote)
        finally:
            os._exit(1)
    attached = array.array("i", [ours.fileno(), output_read, errors_read])
    if pid > 0:
        control.sendmsg([b"S%d" % pid],
                        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, attached)])
    ours.close()
    theirs.close()
    for descriptor in (output_read, output_write, errors_read, errors_write):
        os.close(descriptor)


def reap(control):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        control.send(b"X%d %d" % (pid, status))


def set_up_streams():
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.argv = [""]


def main_of_call():
    set_up_streams()
    if prctl:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    serve(take_channel(CONTROL))


def main():
    if sys.argv[1:] == ["--call"]:
        return main_of_call()
    for name in sys.argv[1:]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"cannot load {name} ahead: {error}", file=sys.stderr)
    control = socket.socket(fileno=CONTROL)
    os.set_inheritable(CONTROL, False)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    set_up_streams()
    gc.collect()
    gc.disable()
    gc.freeze()
    poll = select.poll()
    poll.register(CONTROL, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    wanted = collections.deque()
    while True:
        for descriptor, _ in poll.poll(0 if wanted else None):
            if descriptor == wake_read:
                os.read(wake_read, 4096)
                reap(control)
                continue
            message = control.recv(4096)
            if not message:
                os._exit(0)
            wanted.append(message[1:])
        if wanted:
            fork_child(control, wanted.popleft())


if __name__ == "__main__":
    main()
