// Package kerneltest runs cells in a real Python, for tests: a plain
// interpreter, or an ipykernel. Only tests import it.
//
// [Kernel] is the type to start from; [Plain] and [IPython] make one. It is spoken
// to directly, as no tab does, so that a test of Python code of ours needs no
// bridge.
package kerneltest
