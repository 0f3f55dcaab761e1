"""Raising, catching, chaining, finally, groups; every traceback is compared line by line."""

from .oracle import Program, each


@each(r"""
#: raise a class
raise ValueError

#: raise an instance
raise ValueError("text", 2)

#: raise an instance from a called function
def f(): raise KeyError("k")
def g(): f()
g()

#: raise something that is no exception
raise 5

#: raise a class that is no exception
raise int

#: raise a string
raise "text"

#: raise a class whose constructor raises
class E(Exception):
    def __init__(self): raise ValueError("constructor")
raise E

#: raise a class whose constructor wants arguments
class E(Exception):
    def __init__(self, a): pass
raise E

#: raise a class whose __new__ returns something else
class E(Exception):
    def __new__(cls): return 5
raise E

#: raise from an exception
raise ValueError("a") from KeyError("b")

#: raise from a class
raise ValueError("a") from KeyError

#: raise from None
try:
    1 / 0
except ZeroDivisionError:
    raise ValueError("a") from None

#: raise from something that is no exception
raise ValueError("a") from 5

#: raise from a class whose __new__ returns something else [3.13+]
class E(Exception):
    def __new__(cls): return 5
raise ValueError from E

#: bare raise without an exception
raise

#: bare raise in a function called from a handler
def again(): raise
try:
    1 / 0
except ZeroDivisionError:
    again()

#: bare raise in a handler
try:
    [][1]
except IndexError:
    raise

#: bare raise in a nested handler
try:
    1 / 0
except ZeroDivisionError:
    try:
        {}["k"]
    except KeyError:
        pass
    raise

#: raise the caught exception again
try:
    1 / 0
except ZeroDivisionError as e:
    raise e

#: raise the same exception several times grows the traceback
def f(e):
    raise e
e = ValueError("again")
for _ in range(3):
    try:
        f(e)
    except ValueError:
        pass
f(e)

#: raise with a given traceback
def f(): 1 / 0
try:
    f()
except ZeroDivisionError as e:
    tb = e.__traceback__
raise ValueError("other").with_traceback(tb)

#: raise evaluates the exception before the cause
def f(x):
    log(x)
    return x("m")
raise f(ValueError) from f(KeyError)

#: an exception with its own __str__
class E(Exception):
    def __str__(self): return "my text"
raise E(1, 2)

#: an exception whose __str__ raises
class E(Exception):
    def __str__(self): raise ValueError("str")
raise E(1)

#: an exception with attributes
class E(Exception):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b
raise E(1, 2)

#: builtin exceptions with their attributes
r = []
def attempt(f):
    try:
        f()
    except BaseException as e:
        names = ("name", "obj", "key", "errno", "filename", "value", "code", "msg", "path")
        r.append((type(e), e.args, {n: getattr(e, n) for n in names if hasattr(e, n)}))
import sys
attempt(lambda: None.x)
attempt(lambda: undefined)
attempt(lambda: open("/nonexistent/file"))
attempt(lambda: sys.exit(3))
attempt(lambda: next(iter([])))
attempt(lambda: __import__("nonexistent_module_x"))
attempt(lambda: compile("a b", "f", "exec"))
return r

#: system exit leaves the function
import sys
def f():
    try:
        sys.exit("bye")
    finally:
        log("finally")
f()

#: keyboard interrupt is no Exception
try:
    raise KeyboardInterrupt("k")
except Exception:
    log("never")

#: notes
e = ValueError("a")
e.add_note("first note")
e.add_note("second\nnote")
raise e

#: a note added while passing through
def f():
    try:
        raise KeyError("k")
    except KeyError as e:
        e.add_note("from f")
        raise
f()

#: an error in a multi-line call shows its lines
def f(a, b): raise ValueError("in f")
f(
    1,
    2,
)

#: an error in the arguments of a multi-line call
def f(a, b): pass
f(
    1,
    1 / 0,
)

#: an error in a chain of methods
class C:
    def a(self): return self
    def b(self): raise ValueError("b")
(C()
 .a()
 .b()
 .a())

#: an error in a binary operation shows the operands
x = {"a": {"b": None}}
return x["a"]["b"]["c"] + 1

#: an error in a subscript of a call
def f(): return [1]
return f()[1] + f()[0]

#: an error in a comparison
a, b = 1, "x"
return 0 < a < b < 3

#: an error in an attribute
class C: x = None
c = C()
return c.x.y.z

#: an error in a decorator
def deco(f): raise ValueError("deco")
@deco
def f():
    pass

#: an error in a default argument
def f(a=1 / 0):
    pass

#: an error in a for header
for x in [1 / 0]:
    pass

#: an error in a with header
with 5:
    pass

#: an error in an if condition over lines
if (1 and
        1 / 0):
    pass

#: an error in a return statement over lines
def f():
    return [
        1,
        {}["k"],
    ]
f()

#: an error in a lambda
f = lambda x: x / 0
f(1)

#: an error in an f-string
x = 0
return f"{x} {1 / x}"

#: an error in an assignment target
x = ()
x[0] = 1

#: an error in an augmented assignment
x = {"a": None}
x["a"] += 1

#: an error in a delete statement
x = {}
del x["k"]

#: an error in an assert with a call
def f(): return 0
assert f(), f() / f()
""")
def test_raising(program: Program) -> None:
    program.check()


@each(r"""
#: except by class
try:
    1 / 0
except ZeroDivisionError:
    return "caught"

#: except by base class
try:
    {}["k"]
except LookupError as e:
    return type(e), e.args

#: except by tuple
try:
    1 / 0
except (KeyError, ZeroDivisionError) as e:
    return str(e)

#: except by nested tuple
try:
    1 / 0
except (KeyError, (ValueError, ZeroDivisionError)):
    return "caught"

#: except picks the first that matches
try:
    {}["k"]
except ValueError: return 1
except KeyError: return 2
except LookupError: return 3
except: return 4

#: bare except
try:
    1 / 0
except:
    return "caught"

#: no handler matches
try:
    1 / 0
except KeyError: pass
except ValueError: pass

#: handler expression is evaluated only when needed
def f(x):
    log(x)
    return x
try:
    pass
except f(ValueError): pass
try:
    1 / 0
except f(KeyError): pass
except f(ArithmeticError): log("caught")
except f(Exception): pass

#: handler expression raises
try:
    1 / 0
except undefined_name:
    pass

#: handler expression is no class
try:
    1 / 0
except 5:
    pass

#: handler expression is a tuple with no class
try:
    1 / 0
except (ValueError, "x"):
    pass

#: handler matching ignores __instancecheck__ and __subclasscheck__
class M(type):
    def __instancecheck__(cls, x): log("instance"); return True
    def __subclasscheck__(cls, x): log("subclass"); return True
class E(Exception, metaclass=M): pass
try:
    1 / 0
except E: return "wrong"
except ZeroDivisionError: return "right"

#: else runs without an exception
try:
    x = 1
except ValueError:
    x = 2
else:
    x = 3
return x

#: else does not run after an exception
try:
    1 / 0
except ZeroDivisionError: r = "handler"
else: r = "else"
return r

#: an exception in else is not handled
try:
    pass
except ValueError: pass
else: raise ValueError("else")

#: try, except, else and finally in order
def f(x):
    try:
        log("try")
        if x: raise ValueError
    except ValueError: log("except")
    else: log("else")
    finally: log("finally")
f(0); f(1)

#: finally after return
def f():
    try:
        return "value"
    finally:
        log("finally")
return f()

#: return in finally wins
def f():
    try:
        return "try"
    finally:
        return "finally"
return f()

#: return in finally swallows an exception
def f():
    try:
        1 / 0
    finally:
        return "swallowed"
return f()

#: the returned value is computed before finally
def f():
    x = 1
    try:
        return x
    finally:
        x = 2
        log(x)
return f()

#: a returned list is still mutable in finally
def f():
    x = [1]
    try:
        return x
    finally:
        x.append(2)
return f()

#: break in finally
def f():
    for i in range(3):
        try:
            1 / 0
        finally:
            break
    return i
return f()

#: continue in finally
def f():
    r = []
    for i in range(3):
        try:
            r.append(1 / i)
        finally:
            continue
    return r
return f()

#: break and continue through finally
r = []
for i in range(5):
    try:
        if i == 1: continue
        if i == 3: break
        r.append(i)
    finally:
        r.append(("finally", i))
return r

#: break in try with finally and else of the loop
for i in range(2):
    try:
        break
    finally:
        log("finally")
else:
    log("never")

#: return from a loop in a try in a loop
def f():
    for i in range(3):
        try:
            for j in range(3):
                try:
                    if j == 1: return i, j
                finally:
                    log(("inner", j))
        finally:
            log(("outer", i))
return f()

#: an exception in finally replaces the first
try:
    1 / 0
finally:
    {}["k"]

#: an exception in finally after return
def f():
    try:
        return 1
    finally:
        raise ValueError("finally")
f()

#: finally runs while an exception passes
def f():
    try:
        1 / 0
    finally:
        log("finally")
f()

#: nested finally blocks
def f():
    try:
        try:
            try:
                1 / 0
            finally:
                log(1)
        finally:
            log(2)
    finally:
        log(3)
f()

#: finally with its own try
def f():
    try:
        1 / 0
    finally:
        try:
            {}["k"]
        except KeyError:
            log("inner handled")
f()

#: try inside except inside finally
def f():
    try:
        pass
    finally:
        try:
            1 / 0
        except ZeroDivisionError:
            try:
                [][0]
            except IndexError as e:
                log(str(e.__context__))
return f()

#: return in except with finally
def f():
    try:
        1 / 0
    except ZeroDivisionError:
        return "except"
    finally:
        log("finally")
return f()

#: return in else with finally
def f():
    try:
        pass
    except ValueError: pass
    else:
        return "else"
    finally:
        log("finally")
return f()

#: return in except as e removes e
def f():
    try:
        1 / 0
    except ZeroDivisionError as e:
        return str(e)
return f()

#: continue in except
r = []
for i in (1, 0, 2):
    try:
        r.append(6 // i)
    except ZeroDivisionError:
        continue
    r.append("after")
return r

#: break in except as e
for i in range(3):
    try:
        1 / 0
    except ZeroDivisionError as e:
        break
return i, "e" in locals()

#: e deleted inside its handler
try:
    1 / 0
except ZeroDivisionError as e:
    del e
return "fine"

#: e rebound inside its handler
try:
    1 / 0
except ZeroDivisionError as e:
    e = 5
return "e" in locals()

#: the handler's name in a class body
class C:
    try:
        1 / 0
    except ZeroDivisionError as e:
        text = str(e)
return C.text, hasattr(C, "e")

#: the handler's name is global
def main():
    global err
    try:
        1 / 0
    except ZeroDivisionError as err:
        pass
    return "err" in globals()

#: many nested tries, the outermost handles
def f():
    try:
        try:
            try:
                1 / 0
            except KeyError: log("no")
        except ValueError: log("no")
        finally: log("finally")
    except ZeroDivisionError as e:
        return str(e)
return f()

#: an exception in a try with values on the stack
def f():
    try:
        return [1, 2, (3, 4 / 0)]
    except ZeroDivisionError:
        return "caught"
return f(), [0, f(), {f(): f()}]

#: a try in a while with else
n = 3
while n:
    n -= 1
    try:
        1 / n
    except ZeroDivisionError:
        break
else:
    return "else"
return "broke"

#: an exception caught in a caller further out
def a(): b()
def b():
    try:
        c()
    except KeyError: log("no")
    finally: log("b finally")
def c(): raise ValueError("c")
try:
    a()
except ValueError as e:
    import traceback
    return [(f.name, f.lineno, f.line) for f in traceback.extract_tb(e.__traceback__)]
""")
def test_handling(program: Program) -> None:
    program.check()


@each(r"""
#: context is set in a handler
try:
    1 / 0
except ZeroDivisionError:
    raise ValueError("second")

#: context in finally
try:
    1 / 0
finally:
    raise ValueError("second")

#: context chain of three
try:
    try:
        1 / 0
    except ZeroDivisionError:
        raise ValueError("second")
except ValueError:
    raise KeyError("third")

#: cause and context
try:
    1 / 0
except ZeroDivisionError as e:
    raise ValueError("second") from e

#: cause that is another exception than the context
try:
    1 / 0
except ZeroDivisionError:
    raise ValueError("second") from KeyError("cause")

#: context across frames
def f(): raise ValueError("in f")
try:
    1 / 0
except ZeroDivisionError:
    f()

#: context of an implicit error in a handler
try:
    {}["k"]
except KeyError:
    undefined_name

#: no context after the handler
try:
    1 / 0
except ZeroDivisionError:
    pass
raise ValueError("alone")

#: no context in else
try:
    pass
except ValueError: pass
else:
    raise KeyError("alone")

#: an exception caught in a handler leaves no trace
try:
    1 / 0
except ZeroDivisionError:
    try:
        {}["k"]
    except KeyError:
        pass
    raise ValueError("context is the division")

#: the context of an exception made earlier
e = ValueError("made before")
try:
    1 / 0
except ZeroDivisionError:
    try:
        raise e
    except ValueError as v:
        return type(v.__context__), v.__suppress_context__

#: an exception is never its own context
try:
    raise ValueError("self")
except ValueError as e:
    raise e

#: a cycle of contexts is broken
try:
    raise ValueError("a")
except ValueError as a:
    try:
        raise KeyError("b")
    except KeyError as b:
        try:
            raise a
        except ValueError as again:
            return again is a, a.__context__ is b, b.__context__ is None

#: a longer cycle of contexts
def chain():
    try:
        raise ValueError("a")
    except ValueError as a:
        try:
            raise KeyError("b")
        except KeyError as b:
            try:
                raise IndexError("c")
            except IndexError as c:
                raise a
chain()

#: context set by hand
e = ValueError("a")
e.__context__ = KeyError("by hand")
raise e

#: context set by hand is replaced in a handler
e = ValueError("a")
e.__context__ = KeyError("by hand")
try:
    1 / 0
except ZeroDivisionError:
    raise e

#: cause set by hand
e = ValueError("a")
e.__cause__ = KeyError("by hand")
raise e

#: suppress set by hand
try:
    1 / 0
except ZeroDivisionError:
    e = ValueError("a")
    e.__suppress_context__ = True
    raise e

#: context in a comprehension inside a handler
try:
    1 / 0
except ZeroDivisionError:
    [{}["k"] for _ in range(1)]

#: context in a class body inside a handler
try:
    1 / 0
except ZeroDivisionError:
    class C:
        {}["k"]

#: context of errors raised by C code that called back
class C:
    def __eq__(self, o): raise ValueError("eq")
    def __hash__(self): return 1
try:
    1 / 0
except ZeroDivisionError:
    {C(): 1, C(): 2}

#: context where C code chains
def key(x): raise KeyError("key")
try:
    1 / 0
except ZeroDivisionError:
    sorted([2, 1], key=key)

#: exc_info in nested frames
import sys
def f(): return sys.exc_info()[0]
def g():
    try:
        raise KeyError
    except KeyError:
        return f()
r = [f()]
try:
    1 / 0
except ZeroDivisionError:
    r += [f(), g(), f()]
return r + [f()]

#: sys.exception in nested handlers
import sys
r = []
try:
    1 / 0
except ZeroDivisionError as a:
    r.append(sys.exception() is a)
    try:
        {}["k"]
    except KeyError as b:
        r.append(sys.exception() is b)
    r.append(sys.exception() is a)
r.append(sys.exception())
return r

#: exc_info in finally
import sys
def f():
    try:
        1 / 0
    finally:
        log(sys.exc_info()[0])
try:
    f()
except ZeroDivisionError:
    pass
return sys.exc_info()

#: exc_info after a return from a handler
import sys
def f():
    try:
        1 / 0
    except ZeroDivisionError:
        return 1
f()
return sys.exc_info()

#: exc_info after leaving a loop from a handler
import sys
for i in range(2):
    try:
        1 / 0
    except ZeroDivisionError:
        break
a = sys.exc_info()
for i in range(2):
    try:
        1 / 0
    except ZeroDivisionError:
        continue
return a, sys.exc_info()

#: exc_info in a callback from C inside a handler
import sys
try:
    1 / 0
except ZeroDivisionError:
    return list(map(lambda _: sys.exc_info()[0], [1]))

#: traceback objects
import sys
def f(): 1 / 0
try:
    f()
except ZeroDivisionError as e:
    tb = e.__traceback__
    r = []
    while tb:
        r.append((tb.tb_lineno, tb.tb_frame.f_code.co_name, tb.tb_frame.f_lineno))
        tb = tb.tb_next
    return r

#: locals of a frame in a traceback
def f(x):
    y = x + 1
    raise ValueError
try:
    f(1)
except ValueError as e:
    return dict(e.__traceback__.tb_next.tb_frame.f_locals)

#: format_exc in a handler
import traceback
def f(): raise KeyError("k")
try:
    f()
except KeyError:
    return traceback.format_exc()

#: print_exc in a handler
import traceback
def f(): raise KeyError("k")
try:
    f()
except KeyError:
    traceback.print_exc()

#: format_stack stops at main
import traceback
def f(): return traceback.extract_stack()
def main():
    names = [s.name for s in f()]
    return names[names.index("main"):]

#: a traceback cut short
try:
    (lambda: 1 / 0)()
except ZeroDivisionError as e:
    raise e.with_traceback(None)

#: deep traceback
def f(n):
    if n == 0: raise ValueError("bottom")
    f(n - 1)
f(8)

#: deep recursion is folded in the traceback
def even(n):
    if n == 0: raise ValueError("bottom")
    odd(n - 1)
def odd(n): even(n - 1)
even(12)
""")
def test_chaining(program: Program) -> None:
    program.check()


@each(r"""
#: exception group
raise ExceptionGroup("group", [ValueError(1), TypeError("t")])

#: nested exception group
try:
    1 / 0
except ZeroDivisionError as e:
    raise ExceptionGroup("outer", [e, ExceptionGroup("inner", [KeyError("k")])])

#: except star splits
r = []
try:
    raise ExceptionGroup("g", [ValueError(1), TypeError(2), ValueError(3)])
except* ValueError as g:
    r.append((type(g), g.message, g.exceptions))
except* TypeError as g:
    r.append((type(g), g.message, g.exceptions))
return r

#: except star with a rest
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* ValueError:
    log("value")

#: except star of a plain exception
try:
    1 / 0
except* ZeroDivisionError as g:
    r = type(g), g.message, g.exceptions
return r

#: except star of a plain exception that does not match
try:
    1 / 0
except* ValueError:
    log("never")

#: except star with nested groups
r = []
try:
    raise ExceptionGroup("a", [ExceptionGroup("b", [ValueError(1), KeyError(2)]), ValueError(3)])
except* ValueError as g:
    r.append(g)
except* KeyError as g:
    r.append(g)
return r

#: except star that raises
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* ValueError:
    raise TypeError("from handler")

#: except star handlers that raise several
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
except* ValueError:
    raise TypeError("one")
except* KeyError as e:
    raise RuntimeError("two") from e

#: except star with a bare raise
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* ValueError:
    raise

#: except star with a bare raise in both
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* ValueError:
    raise
except* KeyError:
    raise

#: except star raising its own group again
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* ValueError as g:
    raise g

#: except star with else and finally
def f(x):
    try:
        if x: raise ExceptionGroup("g", [ValueError(1)])
    except* ValueError: log("except")
    else: log("else")
    finally: log("finally")
f(0); f(1)

#: except star by tuple
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* (ValueError, KeyError) as g:
    r = g.exceptions
return r

#: except star with a group class
try:
    raise ExceptionGroup("g", [ValueError(1)])
except* ExceptionGroup:
    pass

#: except star with something that is no class
try:
    raise ExceptionGroup("g", [ValueError(1)])
except* 5:
    pass

#: except star keeps exc_info
import sys
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* ValueError as g:
    log(sys.exc_info()[1] is g)
except* KeyError as g:
    log(sys.exc_info()[1] is g)
return sys.exc_info()

#: base exception group
try:
    raise BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError(1)])
except* ValueError as g:
    log(type(g))

#: a group subclass with derive
class G(ExceptionGroup):
    def derive(self, excs):
        log(len(excs))
        return G("derived", excs)
try:
    raise G("g", [ValueError(1), KeyError(2)])
except* ValueError as g:
    log((type(g), g.message))

#: a group with notes keeps them when split
g = ExceptionGroup("g", [ValueError(1), KeyError(2)])
g.add_note("note")
try:
    raise g
except* ValueError as part:
    log(part.__notes__)

#: except star in a function with values on the stack
def f():
    try:
        return [1, int("x")]
    except* ValueError as g:
        r = len(g.exceptions)
    return r
return [0, f()]

#: except star in a loop
r = []
for i in range(3):
    try:
        if i: raise ExceptionGroup("g", [ValueError(i)])
    except* ValueError as g:
        r.append(g.exceptions[0].args)
    else:
        r.append("else")
return r

#: nested except star
try:
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
    except* ValueError:
        log("inner")
except* KeyError as g:
    log(len(g.exceptions))

#: group methods
g = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2)])])
return g.subgroup(KeyError), g.split(ValueError), g.subgroup(lambda e: isinstance(e, KeyError))
""")
def test_groups(program: Program) -> None:
    program.check()


@each(r"""
#: an exception leaves a generator
def g():
    yield 1
    raise ValueError("in g")
for x in g(): log(x)

#: an exception thrown into a generator
def g():
    try:
        yield 1
    except KeyError as e:
        yield str(e)
i = g()
next(i)
return i.throw(KeyError("thrown"))

#: the handled exception inside a generator is its own
import sys
def g():
    try:
        1 / 0
    except ZeroDivisionError:
        yield sys.exc_info()[0]
        yield sys.exc_info()[0]
i = g()
r = [next(i), sys.exc_info()[0]]
try:
    {}["k"]
except KeyError:
    r += [next(i), sys.exc_info()[0]]
return r

#: a generator resumed in a handler sees the caller's exception
import sys
def g():
    while True: yield sys.exc_info()[0]
i = g()
r = [next(i)]
try:
    1 / 0
except ZeroDivisionError:
    r.append(next(i))
r.append(next(i))
return r

#: context of an exception raised in a generator in a handler
def g():
    yield
    raise ValueError("in g")
i = g()
next(i)
try:
    1 / 0
except ZeroDivisionError:
    next(i)

#: context of an exception thrown into a generator that handles another
def g():
    try:
        1 / 0
    except ZeroDivisionError:
        yield
i = g()
next(i)
i.throw(ValueError("thrown"))

#: finally in a generator runs when it is closed
def g():
    try:
        yield
    finally:
        log("finally")
i = g()
next(i)
i.close()

#: StopIteration inside a generator
def g():
    yield 1
    raise StopIteration("inner")
list(g())

#: StopIteration from next inside a generator
def g():
    yield next(iter([]))
list(g())

#: StopIteration in a nested call inside a generator
def f(): raise StopIteration
def g():
    f()
    yield
next(g())

#: traceback through yield from
def a():
    yield
    raise ValueError("a")
def b(): yield from a()
def c(): yield from b()
list(c())

#: traceback of a generator consumed by C
def g():
    yield 2
    yield 1 / 0
sorted(g())

#: traceback of a generator expression consumed by C
sum(1 / x for x in (1, 0))

#: an exception in a generator's finally
def g():
    try:
        yield
    finally:
        raise ValueError("finally")
i = g()
next(i)
i.throw(KeyError("k"))

#: bare raise after a yield in a handler
def g():
    try:
        1 / 0
    except ZeroDivisionError:
        yield
        raise
i = g()
next(i)
next(i)

#: bare raise in a generator sees no exception of the caller
def g():
    yield
    raise
i = g()
next(i)
next(i)
""")
def test_exceptions_and_generators(program: Program) -> None:
    program.check()
