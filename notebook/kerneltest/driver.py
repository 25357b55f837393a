# Runs cells for tests: JSON lines in ({"code": …}, {"op": "restart"}), {"outputs": […], "execution_count": n} out.
import io
import json
import sys
import traceback


def plain():
    names = {"__name__": "__main__"}
    stdout = sys.stdout
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("op") == "restart":
            names = {"__name__": "__main__"}
            for name in [n for n in sys.modules if n.startswith("_colab_mcp_")]:
                del sys.modules[name]
            print(json.dumps({"outputs": []}), file=stdout, flush=True)
            continue
        sys.stdout = caught = io.StringIO()
        outputs = []
        try:
            exec(request["code"], names)
        except BaseException as err:
            outputs.append({"output_type": "error", "ename": type(err).__name__, "evalue": str(err),
                            "traceback": traceback.format_exc().splitlines()})
        finally:
            sys.stdout = io.StringIO()  # what threads print between cells goes nowhere
        if caught.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": caught.getvalue()})
        print(json.dumps({"outputs": outputs}), file=stdout, flush=True)


def execute(client, code):
    outputs, count = [], None
    sent = client.execute(code, allow_stdin=False)
    while True:
        message = client.get_iopub_msg(timeout=300)
        kind, content = message["msg_type"], message["content"]
        if message["parent_header"].get("msg_id") != sent:
            continue
        if kind == "status" and content["execution_state"] == "idle":
            break
        if kind == "execute_input":
            count = content["execution_count"]
        if kind in ("stream", "error", "execute_result", "display_data"):
            outputs.append(dict(content, output_type=kind))
    while True:
        reply = client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == sent:  # a slow start leaves answers to wait_for_ready's questions
            return outputs, count, reply["content"]["status"]


def ipykernel():
    from jupyter_client.manager import start_new_kernel
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=60)
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if request.get("op") == "restart":
                manager.restart_kernel(now=True)
                client.wait_for_ready(timeout=60)
                print(json.dumps({"outputs": []}), flush=True)
                continue
            while True:
                outputs, count, status = execute(client, request["code"])
                if status != "aborted":  # for a moment after an error the kernel drops what comes
                    break
            print(json.dumps({"outputs": outputs, "execution_count": count}), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


{"plain": plain, "ipykernel": ipykernel}[sys.argv[1]]()
