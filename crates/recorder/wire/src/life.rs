//! Sign that the recorder lives.
//!
//! It holds a robust mutex in the shared memory (pthread_mutexattr_setrobust(3)): the kernel marks it when its owner is
//! gone, however that came about (get_robust_list(2)). So who asks needs no descriptor and no /proc, of which a
//! program may have none left, is not misled by another process that has got the recorder's number, nor by its zombie,
//! and does not take one that is stopped for dead.

use std::io;
use std::marker::PhantomData;

use crate::region::Header;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= 8 * crate::region::LIFE_WORDS);

/// The calling thread lives, and has not dropped this.
#[derive(Debug)]
pub struct Life {
    mutex: *mut libc::pthread_mutex_t,
    /// Only who has taken a mutex may release it.
    _of_this_thread: PhantomData<*mut ()>,
}

fn mutex(header: *const Header) -> *mut libc::pthread_mutex_t {
    // SAFETY: a place inside the header, of which no reference is made here.
    let place = unsafe { &raw const (*header).life.0 };
    place.cast_mut().cast()
}

impl Life {
    /// From now on the calling thread is the recorder.
    ///
    /// # Safety
    /// The memory stays mapped until this is dropped, and nobody else has looked at it yet.
    ///
    /// # Errors
    /// When the system has no such mutexes.
    pub unsafe fn begin(header: *const Header) -> io::Result<Life> {
        let mutex = mutex(header);
        // SAFETY: the mutex is inside the shared memory, whose words are atomic and may change under everybody's hands;
        // nobody uses it yet. The attributes are initialised before they are used.
        unsafe {
            let mut attributes = std::mem::zeroed();
            checked(libc::pthread_mutexattr_init(&raw mut attributes))?;
            checked(libc::pthread_mutexattr_setpshared(
                &raw mut attributes,
                libc::PTHREAD_PROCESS_SHARED,
            ))?;
            checked(libc::pthread_mutexattr_setrobust(
                &raw mut attributes,
                libc::PTHREAD_MUTEX_ROBUST,
            ))?;
            checked(libc::pthread_mutex_init(mutex, &raw const attributes))?;
            checked(libc::pthread_mutex_lock(mutex))?;
        }
        Ok(Life {
            mutex,
            _of_this_thread: PhantomData,
        })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // SAFETY: still mapped, and taken by this thread, which it cannot leave.
        unsafe { libc::pthread_mutex_unlock(self.mutex) };
    }
}

fn checked(error: libc::c_int) -> io::Result<()> {
    match error {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(error)),
    }
}

/// True if the recorder's thread lives and reads the rings.
///
/// # Safety
/// The memory is mapped, and a [`Life`] has begun in it.
pub unsafe fn goes_on(header: *const Header) -> bool {
    let mutex = mutex(header);
    // SAFETY: as the caller promises. Whoever gets the mutex, because its owner is gone, leaves it again.
    unsafe {
        match libc::pthread_mutex_trylock(mutex) {
            libc::EBUSY => true,
            0 | libc::EOWNERDEAD => {
                libc::pthread_mutex_unlock(mutex);
                false
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Memory that processes share.
    fn memory() -> *mut Header {
        // SAFETY: a new mapping of zeros.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Header>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        memory.cast()
    }

    #[test]
    fn it_goes_on_until_it_is_dropped() {
        let memory = memory() as usize;
        let (told, ask) = channel();
        let (end, ends) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: never unmapped.
            let life = unsafe { Life::begin(memory as *const Header) };
            let life = life.expect("there are such mutexes");
            told.send(()).expect("somebody listens");
            ends.recv().expect("it is said");
            drop(life);
        });
        ask.recv().expect("it begins");
        let goes_on = || {
            // SAFETY: it has begun there.
            unsafe { goes_on(memory as *const Header) }
        };
        assert!(goes_on());
        end.send(()).expect("it listens");
        thread.join().expect("it ends");
        assert!(!goes_on());
        assert!(!goes_on());
    }

    /// A stopped recorder lives; a killed one does not, though nobody has waited for it; and to find out takes no
    /// descriptor.
    #[test]
    fn it_ends_with_a_process_that_is_killed() {
        let memory = memory();
        let mut ends = [0; 2];
        // SAFETY: the child does nothing but take a mutex and wait; both sides use memory that stays mapped.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let recorder = libc::fork();
            if recorder == 0 {
                let life = Life::begin(memory);
                libc::write(ends[1], [u8::from(life.is_ok())].as_ptr().cast(), 1);
                loop {
                    libc::pause();
                }
            }
            let mut began = [0u8];
            assert_eq!(libc::read(ends[0], began.as_mut_ptr().cast(), 1), 1);
            assert_eq!(began, [1]);
            libc::kill(recorder, libc::SIGSTOP);
            assert!(goes_on(memory));
            // Asked by who has no descriptor left and may open none.
            let asks = libc::fork();
            if asks == 0 {
                let none = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none);
                libc::_exit(i32::from(!goes_on(memory)));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(asks, &raw mut status, 0), asks);
            assert_eq!(status, 0);
            libc::kill(recorder, libc::SIGKILL);
            // It is a zombie when this returns.
            let mut about = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOWAIT;
            let waited = libc::waitid(libc::P_PID, recorder as u32, &raw mut about, options);
            assert_eq!(waited, 0);
            assert!(!goes_on(memory));
            libc::waitpid(recorder, &raw mut status, 0);
        }
    }
}
