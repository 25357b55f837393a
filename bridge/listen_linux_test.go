package bridge_test

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"colab-mcp/bridge"
)

// inNamespace is set for the test's other half, in a network of its own.
const inNamespace = "COLAB_MCP_TEST_WITHOUT_IPV6"

// L11: a machine without ::1 is served by IPv4 alone, and the log has it.
func TestMachineWithoutIPv6GetsIPv4Alone(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Skipf("no network of our own can be had here: %v", err)
		}
		switch err := cmd.Wait(); {
		case err != nil:
			t.Errorf("%v\n%s", err, &out)
		case strings.Contains(out.String(), "--- SKIP"):
			t.Skip(out.String())
		}
		return
	}
	loopbackWithoutIPv6(t)
	ls, err := bridge.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	shut(t, ls)
	if len(ls) != 1 || !strings.HasPrefix(ls[0].Addr().String(), "127.0.0.1:") {
		t.Errorf("%d listeners, the first on %v", len(ls), ls[0].Addr())
	}
	var log bytes.Buffer
	b := bridge.New(bridge.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if !strings.Contains(log.String(), "no ::1") {
		t.Errorf("the log does not say so:\n%s", &log)
	}
}

// loopbackWithoutIPv6 sets up the loopback of a new network namespace.
func loopbackWithoutIPv6(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0); err != nil && !os.IsNotExist(err) {
		t.Skip(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Skip(err)
	}
}
