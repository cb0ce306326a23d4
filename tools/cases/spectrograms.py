"""Fourier transforms with gradients: of real and complex numbers in several dimensions and norms, a
spectrogram with its inverse, a convolution as a product of spectra."""

import torch


def prepare():
    g = torch.Generator().manual_seed(61)
    signal = torch.randn(2, 64, generator=g).requires_grad_()
    image = torch.randn(3, 5, 6, generator=g, dtype=torch.float64).requires_grad_()
    window = torch.hann_window(16)

    def run():
        out = {}
        stft = torch.stft(signal, 16, hop_length=4, window=window, return_complex=True)
        out["power"] = stft.abs().pow(2)
        out["phase"] = stft.angle().cos()
        out["back"] = torch.istft(stft, 16, hop_length=4, window=window, length=64)
        spectrum = torch.fft.rfft(signal, n=80)
        out["convolved"] = torch.fft.irfft(spectrum * spectrum.conj(), n=80)
        out["fft2"] = torch.view_as_real(torch.fft.fft2(image, norm="ortho"))
        out["ifftn"] = torch.fft.ifftn(image.to(torch.complex128) * 1j).abs()
        out["rfftn"] = torch.fft.rfftn(image, norm="forward").real
        out["hfft"] = torch.fft.hfft(torch.fft.ihfft(image, dim=1), n=5, dim=1)
        loss = sum((v.double() ** 2).sum() for v in out.values())
        loss.backward()
        out["loss"] = loss
        out["grad.signal"], out["grad.image"] = signal.grad, image.grad
        return out

    return run, {"signal": signal, "image": image, "window": window}
