//! Calls that a completion token completes after their kernel has returned.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use millstream::kernels::{CompletionToken, KernelCtx};
use millstream::*;
use millstream_testing::machine::*;

/// The tokens of the calls of `later`, in the order in which their kernels ran.
type Tokens = mpsc::Receiver<CompletionToken>;

/// Returns a machine and the receiver of its tokens. The kernel of `later` writes 1 and sends its
/// token; the kernel of `both` sends its token and fails; `drops` drops its token; `twice` takes
/// two.
fn machine(driver: DriverKind) -> (Machine, Tokens) {
    let (sender, tokens) = mpsc::channel();
    let sender = Arc::new(Mutex::new(sender));
    let mut config = config(driver, SyncPolicy::Frontier);
    let to = sender.clone();
    add_op(&mut config, "later", move |ctx| {
        write(ctx, 1.0)?;
        Ok(to.lock().unwrap().send(ctx.take_completion_token()?)?)
    });
    add_op(&mut config, "both", move |ctx| {
        sender.lock().unwrap().send(ctx.take_completion_token()?)?;
        anyhow::bail!("broken all the same")
    });
    add_op(&mut config, "drops", |ctx| ctx.take_completion_token().map(drop));
    add_op(&mut config, "twice", |ctx| {
        ctx.take_completion_token()?.complete(Ok(()));
        ctx.take_completion_token().map(drop)
    });
    let sim = config.kernels.get("cpu", "later").cloned().unwrap();
    config.kernels.register("sim", "later", sim);
    (Machine::new(config).unwrap(), tokens)
}

fn write(ctx: &KernelCtx<'_>, value: f32) -> anyhow::Result<()> {
    // SAFETY: operand 1 is the call's result, one element of host memory.
    unsafe { *ctx.operand(1)?.data.cast::<f32>() = value };
    Ok(())
}

fn streams(m: &Machine) -> [Stream; 2] {
    let pool = m.stream_with_mode(&StreamKey::compute(CPU, 7), StreamMode::Pool).unwrap();
    [cpu(m, 0), pool]
}

#[test]
fn a_call_completes_with_its_token() {
    for driver in DRIVERS {
        let (m, tokens) = machine(driver);
        for s in streams(&m) {
            let x = upload(&s, &m, &[0.0]);
            let y = call(&m, "later", &[&x], &s);
            let z = call(&m, "add", &[&y, &y], &s);
            let token = tokens.recv_timeout(LONG).unwrap();
            let done = s.completion().unwrap();
            assert!(!done.query(), "{driver:?}");
            // Another thread completes the call while this one waits.
            let other = std::thread::spawn(move || token.complete(Ok(())));
            assert_eq!((read(&y), read(&z)), (vec![1.0], vec![2.0]), "{driver:?}");
            other.join().unwrap();
        }
        m.synchronize().unwrap();
    }
}

/// On an in-order stream later calls wait, whatever their operands. On a pool they do not.
#[test]
fn a_call_in_flight_blocks_its_stream_but_no_pool() {
    let (m, tokens) = machine(DriverKind::Threaded);
    let [s, p] = streams(&m);
    for (stream, overtakes) in [(s, false), (p, true)] {
        let (x, other) = (upload(&stream, &m, &[0.0]), upload(&stream, &m, &[3.0]));
        let y = call(&m, "later", &[&x], &stream);
        let first = tokens.recv_timeout(LONG).unwrap();
        let after = call(&m, "later", &[&other], &stream);
        if overtakes {
            let second = tokens.recv_timeout(LONG).unwrap();
            second.complete(Ok(()));
            first.complete(Ok(()));
        } else {
            assert!(tokens.try_recv().is_err());
            first.complete(Ok(()));
            tokens.recv_timeout(LONG).unwrap().complete(Ok(()));
        }
        assert_eq!((read(&y), read(&after)), (vec![1.0], vec![1.0]));
    }
    m.synchronize().unwrap();
}

#[test]
fn failures_of_calls_with_tokens() {
    for driver in DRIVERS {
        let (m, tokens) = machine(driver);
        for s in streams(&m) {
            let x = upload(&s, &m, &[0.0]);
            let message_with_token = |op: &str, end: &dyn Fn(CompletionToken)| {
                let y = call(&m, op, &[&x], &s);
                end(tokens.recv_timeout(LONG).unwrap());
                failure(y.read().unwrap_err()).message.clone()
            };
            let broken = |t: CompletionToken| t.complete(Err(anyhow::anyhow!("broken far away")));
            assert_eq!(message_with_token("later", &broken), "broken far away");
            assert_eq!(
                message_with_token("later", &drop),
                "the call's completion token was dropped before it completed"
            );
            assert_eq!(message_with_token("both", &|t| t.complete(Ok(()))), "broken all the same");
            let message_without_token = |op: &str| {
                let y = call(&m, op, &[&x], &s);
                failure(y.read().unwrap_err()).message.clone()
            };
            assert_eq!(
                message_without_token("drops"),
                "the call's completion token was dropped before it completed"
            );
            assert_eq!(
                message_without_token("twice"),
                "the call's completion token was taken before"
            );
            // The stream still works.
            assert_eq!(read(&call(&m, "relu", &[&x], &s)), [0.0]);
        }
        m.clear_failures();
        m.synchronize().unwrap();
    }
}

/// A kernel's error takes effect once the token is gone, because the token's holder may still use
/// the memory.
#[test]
fn an_error_waits_for_the_token() {
    let (m, tokens) = machine(DriverKind::Threaded);
    for s in streams(&m) {
        let x = upload(&s, &m, &[0.0]);
        let y = call(&m, "both", &[&x], &s);
        let token = tokens.recv_timeout(LONG).unwrap();
        let done = s.completion().unwrap();
        let late = done.wait_for(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(late.without_place(), Error::Timeout { .. }), "{late}");
        drop(token);
        assert_eq!(failure(y.read().unwrap_err()).message, "broken all the same");
    }
}

#[test]
fn a_prepared_call_may_complete_later() {
    let (sender, tokens) = mpsc::channel();
    let sender = Mutex::new(sender);
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    config.kernels.register(
        "cpu",
        "add_",
        Arc::new(move |ctx: &KernelCtx<'_>| {
            Ok(sender.lock().unwrap().send(ctx.take_completion_token()?)?)
        }),
    );
    let m = Machine::new(config).unwrap();
    for s in streams(&m) {
        let x = upload(&s, &m, &[1.0]);
        let add = m.prepare("add_", &[&x, &x], Attrs::new()).unwrap();
        let mut batch = m.batch();
        (0..3).for_each(|_| batch.call(&add, &s).unwrap());
        drop(batch);
        (0..3).for_each(|_| tokens.recv_timeout(LONG).unwrap().complete(Ok(())));
        m.synchronize().unwrap();
    }
}

#[test]
fn a_device_that_completes_calls_itself_gives_no_token() {
    let (m, _tokens) = machine(DriverKind::Threaded);
    let s = sim(&m, 0);
    let x = upload(&s, &m, &[0.0]);
    let message = failure(call(&m, "later", &[&x], &s).read().unwrap_err()).message.clone();
    assert_eq!(message, "no completion token: calls of this device complete on its stream");
}
